import csv
import io
from statistics import fmean

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from fflbench.records import Record
from fflbench.records.record import identify
from fflbench.report import contents, render
from fflbench.report.show import plot
from fflbench.report.statistics import estimate
from fflbench.report.tables import robustness


def record(defense, seed, accuracy, *, attack="gaussian-noise", loss=0.5, success=0.1, **fields):
    names = {"task": "digits-mlp", "attack": attack, "defense": defense}
    configuration = {**{kind: {"name": name, "parameters": {}} for kind, name in names.items()}, "seed": seed}
    return Record(
        id=identify(configuration),
        suite="own",
        labels=names,
        configuration=configuration,
        manifest={},
        facts={"targeted": attack == "label-flipping"},
        **{
            "status": "done",
            "metrics": {
                "test_loss": loss,
                "accuracy": accuracy,
                "source_accuracy": accuracy,
                "attack_success_rate": success,
                "class_accuracy": [accuracy],
                "diverged": False,
            },
            **fields,
        },
    )


@pytest.mark.parametrize("values", [[0.9, 0.8, 0.95], [1.0, 2.0], list(np.linspace(0, 1, 10))])
def test_intervals_are_those_of_scipy(values):
    found = estimate(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert found.mean == pytest.approx(np.mean(values))
    assert found.half_width == pytest.approx((high - low) / 2)


def test_one_seed_has_no_interval():
    assert estimate([0.5]).half_width is None


RECORDS = [
    *(record("fedavg", seed, 0.9, attack="none") for seed in (0, 1)),
    *(record("median", seed, 0.99, attack="none") for seed in (0, 1)),
    *(record("fedavg", seed, accuracy) for seed, accuracy in enumerate((0.3, 0.5))),
    *(record("median", seed, accuracy, loss=0.4) for seed, accuracy in enumerate((0.8, 0.9))),
    *(record("<b>|*", seed, 0.85) for seed in (0, 1)),
]


def test_methods_by_rows_metrics_by_columns_and_fedavg_without_attack_first():
    clean, noisy = robustness(RECORDS)
    assert clean.title == "digits-mlp, no attack"
    assert noisy.title == "digits-mlp under gaussian-noise"
    assert [row.label for row in noisy.rows] == ["fedavg (no attack)", "fedavg", "median", "<b>|*"]
    assert [metric.name for metric in noisy.metrics] == ["test_loss", "accuracy"]
    assert noisy.rows[2].values[1].estimate.mean == fmean((0.8, 0.9))


def test_a_targeted_attack_is_judged_by_source_accuracy_and_success():
    (table,) = robustness([record("fedavg", 0, 0.9, attack="label-flipping")])
    assert [metric.name for metric in table.metrics] == ["test_loss", "source_accuracy", "attack_success_rate"]


def test_the_best_attacked_row_is_marked_and_so_is_one_that_looks_the_same():
    (_, noisy) = robustness(RECORDS)
    assert [row.values[0].best for row in noisy.rows] == [False, False, True, False]
    assert [row.values[1].best for row in noisy.rows] == [False, False, True, True]
    (table,) = robustness(
        [
            record("a", 0, 0.9, attack="label-flipping", success=0.3),
            record("b", 0, 0.9, attack="label-flipping", success=0.2),
        ]
    )
    assert [row.values[2].best for row in table.rows] == [False, True]


def test_diverged_and_failed_cells_are_shown_as_such_and_break_nothing():
    diverged = {
        "test_loss": None,
        "accuracy": 0.1,
        "source_accuracy": 0.1,
        "attack_success_rate": 0.0,
        "class_accuracy": [0.1],
        "diverged": True,
    }
    records = [
        record("a", 0, 0.9),
        record("a", 1, 0.1, metrics=diverged),
        record("b", 0, 0.9, status="failed", metrics={}, error="oh"),
        record("b", 1, 0.9),
        record("c", 0, 0.8),
    ]
    (table,) = robustness(records)
    assert [row.values[0].note for row in table.rows] == ["1 of 2 diverged", "1 of 2 failed", "1 seed"]
    assert [row.values[1].best for row in table.rows] == [False, False, True]
    for text in (render.to_markdown([table]), render.to_csv([table])):
        assert "1 of 2 diverged" in text


def test_markdown_holds_figures_intervals_and_escaped_names():
    text = contents.files("My <suite>", RECORDS)["tables.md"].decode()
    assert text.startswith("# My \\<suite\\>\n")
    half = stats.t.ppf(0.975, 1) * np.std([80, 90], ddof=1) / np.sqrt(2)
    assert f"| median | **0.400 ± 0.000** | **85.00 ± {half:.2f}** |" in text
    assert "| \\<b\\>\\|\\* |" in text


def test_csv_holds_every_figure():
    rows = list(csv.DictReader(io.StringIO(render.to_csv(robustness(RECORDS)))))
    assert len(rows) == 2 * 2 + 4 * 2
    found = next(row for row in rows if row["defense"] == "median" and row["attack"] == "gaussian-noise")
    assert (found["metric"], float(found["mean"]), found["seeds"]) == ("test_loss", 0.4, "2")


def test_the_terminal_shows_names_as_they_are(capsys):
    render.to_terminal(robustness(RECORDS), Console(width=100))
    out = capsys.readouterr().out
    assert "<b>|*" in out
    assert "85.00 ±" in out


def test_a_curve_in_text():
    rising = plot([i / 100 for i in range(101)])
    lines = rising.splitlines()
    assert lines[0].rstrip().endswith("•")
    assert lines[9].split("┤")[1].startswith("•")
    assert rising.endswith("101 rounds")
    assert plot([0.1, 0.2, 0.3]).endswith("1 3 rounds")
    assert plot([0.5]).count("•") == 1
    assert "no rounds" in plot([])


def test_rounds_that_kept_the_model_and_had_more_attackers_than_f_are_flagged():
    """In the terminal, in Markdown and in CSV, each flag once, with the rows it is about."""
    quiet = [record("fedavg", seed, 0.9) for seed in (0, 1)]
    facts = {"rounds_that_kept_the_model": 2, "rounds_with_more_attackers_than_f": 1, "flags": ["f = 0 of 4"]}
    loud = [record("krum", seed, 0.9, history=[{}] * 10) for seed in (0, 1)]
    loud = [told.model_copy(update={"facts": told.facts | facts}) for told in loud]
    found = robustness([*quiet, *loud])
    console = Console(file=io.StringIO(), width=160)
    render.to_terminal(found, console)
    for text in (console.file.getvalue(), render.to_markdown(found).replace("\\", "")):
        assert text.count("krum: there was no usable aggregate and the model was kept in 4 of 20 rounds") == 1
        assert text.count("krum: more attackers than f were selected in 2 of 20 rounds") == 1
        assert text.count("krum: f = 0 of 4") == 1
        assert "fedavg:" not in text
    flags = {row["defense"]: row["flags"] for row in csv.DictReader(io.StringIO(render.to_csv(found)))}
    assert flags["fedavg"] == ""
    assert "more attackers than f" in flags["krum"]

"""Leaderboards: statistics against scipy, tables from records alone, and evidence that can be trusted."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner

from fflbench.cli import app
from fflbench.errors import RecordError
from fflbench.execution import verify as verifying
from fflbench.execution.run import run
from fflbench.records import evidence
from fflbench.records.record import Record, identify
from fflbench.records.store import Store
from fflbench.report import boards, figures, leaderboard, panels, robust
from fflbench.report.commands import commands
from fflbench.report.statistics import holm, leaders, paired, prediction, worst

COMMITTED = Path(__file__).parents[2] / "leaderboards"


# Statistics


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=8))
def test_paired_differences_are_those_of_scipy(pairs):
    ours, theirs = (dict(enumerate(side)) for side in zip(*pairs, strict=True))
    spread = np.std([a - b for a, b in pairs])
    if spread < 1e-6:
        return
    found = paired(ours, theirs)
    expected = stats.ttest_rel(list(ours.values()), list(theirs.values()))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    low, high = expected.confidence_interval(0.95)
    assert found.estimate.half_width == pytest.approx((high - low) / 2, rel=1e-6)


def test_only_shared_seeds_are_compared():
    found = paired({0: 1.0, 1: 2.0, 7: 100.0}, {0: 0.5, 1: 1.0, 9: -100.0})
    assert found.estimate.mean == 0.75
    assert paired({0: 1.0}, {1: 1.0}) is None


def test_holms_correction_is_the_published_one():
    # The example of R's p.adjust: sort, multiply by 4, 3, 2, 1, never fall.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_worst_case_is_taken_seed_by_seed():
    noise, flip = {0: 0.9, 1: 0.5}, {0: 0.4, 1: 0.8}
    found = worst([noise, flip])
    assert found == {0: 0.4, 1: 0.5}
    worst_of_means = min(np.mean(list(noise.values())), np.mean(list(flip.values())))
    assert np.mean(list(found.values())) == 0.45 != worst_of_means
    assert worst([noise, {0: 0.1}]) == {0: 0.1}
    assert worst([]) == {}


def test_best_is_only_who_every_test_tells_from_the_others():
    clear = {"a": {s: 0.9 + 0.001 * s for s in range(5)}, "b": {s: 0.5 + 0.002 * s for s in range(5)}}
    assert leaders(clear, highest=True) == {"a": "best"}
    assert leaders(clear, highest=False) == {"b": "best"}
    rng = np.random.default_rng(0)
    blurred = clear | {"c": {s: 0.9 + 0.001 * s + 0.01 * rng.normal() for s in range(5)}}
    assert leaders(blurred, highest=True) == {"a": "tied", "c": "tied"}
    assert leaders({"a": {0: 1.0}, "b": {0: 0.0}}, highest=True) == {"a": "tied", "b": "tied"}
    assert leaders({}, highest=True) == {}


def test_one_more_seed_falls_where_predicted_as_often_as_promised():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        *known, new = rng.normal(size=6)
        low, high = prediction(known)
        inside += low <= new <= high
    assert 0.93 < inside / 2000 < 0.97
    assert prediction([1.0]) is None


# Synthetic records


def record(attack="none", defense="fedavg", seed=0, accuracy=0.9, success=0.0, task="digits-mlp", **changes):
    targeted = attack == "label-flipping"
    label = changes.pop("label", defense)
    configuration = {
        "task": {"name": task, "parameters": {}},
        "attack": {"name": attack, "parameters": {"strategy": changes.pop("strategy", 1)}},
        "defense": {"name": defense, "parameters": changes.pop("parameters", {})},
        "seed": seed,
    }
    history = [{"round": number, "accuracy": accuracy * number / 3} for number in (1, 2, 3)]
    facts = {"targeted": targeted, "attackers": [0], "flags": changes.pop("flags", [])}
    metrics = {
        "test_loss": 1 - accuracy,
        "accuracy": accuracy,
        "source_accuracy": accuracy,
        "attack_success_rate": success,
        "class_accuracy": [accuracy],
        "diverged": False,
    }
    made = {
        "id": identify(configuration),
        "suite": "own",
        "labels": {"task": task, "attack": attack, "defense": label},
        "configuration": configuration,
        "status": "done",
        "metrics": metrics,
        "facts": facts,
        "history": history,
        "manifest": {"results": {"core": 2, "robustness": 2, "task": 1, "attack": 1, "defense": 1}, "processor": "x"},
    }
    return Record(**(made | changes))


def content_of(told):
    """A record's content as another tool would write it, without the digest of ours."""
    content = json.loads(told.json_text())
    del content["digest"]
    return content


def three_seeds(**told):
    accuracy = told.pop("accuracy", 0.9)
    # Defenses wander a little apart from seed to seed, or there would be nothing to test by.
    wander = [0, 0.0003, -0.0003] if told.get("defense") == "median" else [0, 0, 0]
    return [record(seed=seed, accuracy=accuracy + 0.01 * seed + wander[seed], **told) for seed in range(3)]


WHOLE = [
    *three_seeds(),
    *three_seeds(defense="median", accuracy=0.88),
    *three_seeds(attack="gaussian-noise", accuracy=0.4),
    *three_seeds(attack="gaussian-noise", defense="median", accuracy=0.85),
    *three_seeds(attack="noise-control", accuracy=0.3),
    *three_seeds(attack="noise-control", defense="median", accuracy=0.87),
    *three_seeds(attack="label-flipping", accuracy=0.8, success=0.5),
    *three_seeds(attack="label-flipping", defense="median", accuracy=0.8, success=0.1),
]


def written(folder, records):
    store = Store(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for each in records:
        store.write(each)
    return folder


def panel(board, name):
    return next(found for found in board.panels if found.name == name)


def cell(found, row, column):
    place = [told.name for told in found.columns].index(column)
    return next(told for told in found.rows if told.label == row).cells[place]


def test_the_summary_has_clean_cost_every_attack_and_the_worst():
    found = panel(boards.board("own", WHOLE), "digits-mlp-summary")
    assert cell(found, "median", "clean_cost").mean == pytest.approx(-0.02)
    assert cell(found, "fedavg", "worst_accuracy").mean == pytest.approx(0.31)
    assert cell(found, "median", "worst_accuracy").mean == pytest.approx(0.86)
    assert cell(found, "median", "worst_accuracy").mark == "best"
    assert cell(found, "fedavg", "label-flipping").mean == pytest.approx(0.5)


def test_targeted_attacks_count_in_excess_of_the_attack_free_rate():
    clean = [record(seed=seed, success=0.45) for seed in range(2)]
    hit = [record(attack="label-flipping", seed=seed, success=0.6) for seed in range(2)]
    found = panel(boards.board("own", clean + hit), "digits-mlp-summary")
    assert cell(found, "fedavg", "label-flipping").mean == pytest.approx(0.15)


def test_strategies_count_with_the_worst_of_each_seed():
    ffl = [
        record(
            attack="gaussian-noise", defense="ffl", label=f"ffl, strategy {s}", strategy=s, seed=seed, accuracy=value
        )
        for s, seed, value in ((1, 0, 0.9), (1, 1, 0.2), (2, 0, 0.3), (2, 1, 0.8))
    ]
    clean = [record(defense=name, seed=seed) for name in ("fedavg", "ffl") for seed in (0, 1)]
    found = panel(boards.board("own", clean + ffl), "digits-mlp-summary")
    assert cell(found, "ffl", "gaussian-noise").mean == pytest.approx(0.25)
    attacked = panel(boards.board("own", clean + ffl), "digits-mlp-gaussian-noise")
    assert [row.label for row in attacked.rows] == ["fedavg (no attacks)", "ffl, strategy 1", "ffl, strategy 2"]


def test_missing_failed_diverged_and_single_seeds_show():
    missing = [told for told in WHOLE if (told.labels["attack"], told.configuration["seed"]) != ("gaussian-noise", 2)]
    found = panel(boards.board("own", missing), "digits-mlp-summary")
    assert cell(found, "median", "gaussian-noise").text == "1 of 3 missing"
    assert cell(found, "median", "worst_accuracy").text == "incomplete"

    def with_(change):
        chosen = ("gaussian-noise", "median", 0)
        return [
            told.model_copy(update=change(told))
            if (told.labels["attack"], told.labels["defense"], told.configuration["seed"]) == chosen
            else told
            for told in WHOLE
        ]

    failed = boards.board("own", with_(lambda told: {"status": "failed", "error": "boom", "metrics": {}}))
    assert cell(panel(failed, "digits-mlp-summary"), "median", "gaussian-noise").text == "1 of 3 failed"
    assert any("boom" in flag for flag in failed.flags)
    diverged = boards.board("own", with_(lambda told: {"metrics": told.metrics | {"diverged": True}}))
    assert cell(panel(diverged, "digits-mlp-summary"), "median", "worst_accuracy").text == "diverged"
    single = boards.board("own", [told for told in WHOLE if told.configuration["seed"] == 0])
    assert cell(panel(single, "digits-mlp-summary"), "median", "clean").note == "1 seed"


def test_an_attack_weaker_than_noise_is_flagged():
    assert any("gaussian-noise takes less accuracy" in flag for flag in boards.board("own", WHOLE).flags)
    strong = [told for told in WHOLE if told.labels["attack"] != "noise-control"]
    strong += three_seeds(attack="noise-control", accuracy=0.7)
    assert not any("takes less accuracy" in flag for flag in boards.board("own", strong).flags)
    without = [told for told in WHOLE if told.labels["attack"] != "noise-control"]
    assert any("noise-control was not run" in flag for flag in boards.board("own", without).flags)


def test_other_versions_and_processors_and_what_a_rule_does_not_bear_are_flagged():
    other = WHOLE[0].model_copy(update={"manifest": WHOLE[0].manifest | {"processor": "y"}})
    assert any("another processor" in flag for flag in boards.board("own", [other, *WHOLE[1:]]).flags)
    old = WHOLE[0].model_copy(update={"manifest": WHOLE[0].manifest | {"results": {"core": 1}}})
    stale = boards.board("own", [old, *WHOLE[1:]])
    assert any("older results versions" in flag for flag in stale.flags)
    rows = {row.label: row.flags for row in panel(stale, "digits-mlp-summary").rows}
    assert rows == {"fedavg": (boards.STALE,), "median": ()}
    bold = record(defense="multi-krum", flags=["f = 5 is more than it bears"])
    found = panel(boards.board("own", [*WHOLE, bold]), "digits-mlp-summary")
    assert next(row for row in found.rows if row.label == "multi-krum").flags == ("f = 5 is more than it bears",)
    assert "⚑1 f = 5 is more than it bears" in panels.to_markdown(found)


def test_rounds_that_kept_the_model_are_flagged():
    troubled = record(defense="krum")
    troubled = troubled.model_copy(update={"facts": troubled.facts | {"rounds_that_kept_the_model": 2}})
    found = panel(boards.board("own", [*WHOLE, troubled]), "digits-mlp-summary")
    rows = {row.label: row.flags for row in found.rows}
    assert rows["krum"] == ("there was no usable aggregate and the model was kept in 2 of 3 rounds",)


def test_a_mixture_of_two_sources_of_a_plugin_is_flagged():
    def of_source(seed, source):
        told = record(defense="theirs", seed=seed)
        results = told.manifest["results"] | {"defense": f"1+{source}"}
        return told.model_copy(update={"manifest": told.manifest | {"results": results}})

    one = [of_source(seed, "aaaa") for seed in range(3)]
    assert not any("mixture" in flag for flag in boards.board("own", [*WHOLE, *one]).flags)
    mixed = boards.board("own", [*WHOLE, *one[:2], of_source(2, "bbbb")])
    (told,) = (flag for flag in mixed.flags if "mixture" in flag)
    assert 'defense "theirs": 2 of version 1+aaaa, 1 of version 1+bbbb' in told


def test_differences_from_fedavg_are_paired_and_corrected():
    found = panel(boards.board("own", WHOLE), "digits-mlp-gaussian-noise")
    against = cell(found, "median", "accuracy_against_fedavg")
    assert against.mean == pytest.approx(0.45)
    assert against.note == "p < 0.001"


def test_latex_is_for_booktabs_and_escaped():
    nasty = record(defense="median", label="100% $un_safe & {bad} \\input")
    text = panels.to_latex(panel(boards.board("own", [record(), nasty]), "digits-mlp-summary"))
    assert "\\toprule" in text
    assert r"100\% \$un\_safe \& \{bad\} \textbackslash{}input" in text
    assert "±" not in text


def test_json_is_valid_by_its_own_schema_and_csv_has_every_figure():
    board = boards.board("own", WHOLE)
    assert panels.Board.model_validate(json.loads(panels.to_json(board))) == board
    found = panel(board, "digits-mlp-summary")
    rows = list(csv.DictReader(io.StringIO(panels.to_csv(found))))
    assert len(rows) == len(found.rows) * len(found.columns)


# Folders


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def contents_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_the_same_records_give_the_same_bytes_wherever_they_stand(tmp_path):
    source = written(tmp_path / "results" / "own", WHOLE)
    assert invoke("leaderboard", source, "--out", tmp_path / "a" / "own").exit_code == 0
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for room in ("tables", "figures"):
        shutil.rmtree(tmp_path / "b" / "own" / room)
    (tmp_path / "b" / "own" / "README.md").unlink()
    assert invoke("leaderboard", tmp_path / "b" / "own").exit_code == 0
    assert contents_of(tmp_path / "a") == contents_of(tmp_path / "b")
    assert "own/README.md" in (tmp_path / "b" / "README.md").read_text()


def test_tables_that_are_no_longer_made_go_away(tmp_path):
    board = tmp_path / "boards" / "own"
    invoke("leaderboard", written(tmp_path / "one", WHOLE), "--out", board)
    assert (board / "tables" / "digits-mlp-label-flipping.csv").exists()
    less = [told for told in WHOLE if told.labels["attack"] != "label-flipping"]
    invoke("leaderboard", written(tmp_path / "two", less), "--out", board)
    assert not (board / "tables" / "digits-mlp-label-flipping.csv").exists()
    assert len(list((board / "records").glob("*.json"))) == len(less)


def damage(file, how):
    text = file.read_text()
    if how == "truncated":
        file.write_text(text[: len(text) // 2])
    elif how == "altered":
        file.write_text(text.replace('"accuracy": 0.', '"accuracy": 0.9'))
    elif how == "foreign":
        file.write_text(text.replace('"schema_version": 1', '"schema_version": 7'))
    else:
        file.unlink()


@pytest.mark.parametrize("how", ["truncated", "altered", "foreign", "gone"])
def test_damaged_evidence_is_named_and_left_out(tmp_path, how):
    board = tmp_path / "boards" / "own"
    invoke("leaderboard", written(tmp_path / "one", WHOLE), "--out", board)
    victim = sorted((board / "records").glob("*.json"))[3]
    damage(victim, how)
    found = invoke("leaderboard", board)
    assert found.exit_code == 1
    assert victim.name in found.output
    assert "missing" in (board / "README.md").read_text()
    assert invoke("leaderboard", board, "--allow-partial").exit_code == 0


@pytest.mark.parametrize("how", ["truncated", "foreign"])
def test_damaged_records_of_a_run_are_named_too(tmp_path, how):
    source = written(tmp_path / "one", WHOLE)
    victim = sorted(source.glob("*.json"))[3]
    damage(victim, how)
    found = invoke("leaderboard", source, "--out", tmp_path / "boards" / "own")
    assert found.exit_code == 1
    assert victim.name in found.output


def test_folders_without_records_are_told_in_a_sentence(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        found = subprocess.run(
            [sys.executable, "-m", "fflbench", "leaderboard", str(folder)], capture_output=True, text=True
        )
        assert found.returncode == 2
        assert "Traceback" not in found.stderr
        assert "there is no" in found.stderr


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def mutate(value, data):
    """Change one thing, anywhere in it."""
    if isinstance(value, dict) and value and data.draw(st.integers(0, 9)):
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 4)) == 0:
            return {name: inner for name, inner in value.items() if name != key}
        return value | {key: mutate(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], mutate(value[place], data), *value[place + 1 :]]
    return data.draw(JSON)


@pytest.fixture(scope="module")
def pile(measured, tmp_path_factory):
    """A folder of sound records, of every kind."""
    folder = tmp_path_factory.mktemp("pile")
    records = [*WHOLE[:6], *measured]
    for told in records:
        (folder / f"{told.id}.json").write_text(told.json_text())
    return folder, records


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_records_never_end_in_a_traceback(pile, data):
    folder, records = pile
    victim = data.draw(st.sampled_from(records))
    sound, content = folder / f"{victim.id}.json", mutate(content_of(victim), data)
    file = sound
    if isinstance(content, dict) and isinstance(content.get("configuration"), dict):
        # The id is a hash that anybody can make anew.
        content["id"] = identify(content["configuration"])
        file = folder / f"{content['id']}.json"
    sound.unlink()
    file.write_text(json.dumps(content))
    try:
        found = evidence.gather(folder)
        how = commands("own", found.records, {})
        leaderboard.content(boards.board("own", found.records), {}, how)
    finally:
        file.unlink()
        sound.write_text(victim.json_text())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Real records of every measure, small ones."""
    folder = tmp_path_factory.mktemp("measured")
    suite = folder / "small.toml"
    suite.write_text("""
tasks = ["digits-mlp"]
attacks = ["analytic"]
defenses = ["fedavg", "ffl"]
seeds = [0, 1]
[measure]
use = "reconstruction"
target = ["own", "unmixed"]
groups = 1
[[also]]
attacks = ["partner-view"]
defenses = ["ffl"]
[also.measure]
use = "partner"
pairs = 1
[[also]]
defenses = ["median"]
[also.measure]
use = "runtime"
updates = 4
repeats = 1
[[also]]
defenses = ["fedavg"]
[also.measure]
use = "communication"
""")
    records = run(str(suite), out=folder / "results", workers=1)
    # Without their arrays, which would have to stand beside them.
    return [told.carrying(b"") for told in records]


def test_privacy_and_cost_join_the_overall_row(measured):
    board = boards.board("own", [*WHOLE, *measured])
    overall = panel(board, "overall-digits-mlp")
    assert cell(overall, "fedavg", "leak_alone").mean > 40
    assert cell(overall, "fedavg", "kilobytes").mean > 1
    assert cell(overall, "median", "server_seconds").mean > 0
    assert overall.rows[0].label == "median"
    privacy = panel(board, "privacy-1")
    assert cell(privacy, "ffl", "worst").mean > cell(privacy, "ffl", "own").mean + 20
    ours = panel(board, "privacy-partner")
    assert ours.rows[0].cells[0].mean == 0


def test_an_exchange_that_nobody_attacked_knowingly_is_flagged(measured):
    naive = [told for told in measured if "unmixed" not in told.labels["measure"]]
    row = next(row for row in panel(boards.board("own", naive), "privacy-1").rows if row.label == "ffl")
    assert row.flags == ("no adaptive attack has been run against its exchange",)


# Verifying, and entries from outside


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A leaderboard of real cells."""
    folder = tmp_path_factory.mktemp("real")
    suite = folder / "tiny.toml"
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["fedavg", "median"]\nseeds = [0, 1, 2, 3, 4, 5]\n'
        "[overrides]\nrounds = 2\n"
    )
    run(str(suite), out=folder / "results", workers=1)
    leaderboard.generate(folder / "results" / "tiny", folder / "boards" / "tiny")
    return folder / "boards" / "tiny"


def test_cells_that_are_run_again_are_the_same_bits(real):
    verdicts, problems = verifying.verify(real, 2, 0, [])
    assert not problems
    assert [verdict.how for verdict in verdicts] == ["same bits"] * 2


def rewritten(board, tmp_path, change):
    """A copy of a leaderboard with its records changed, digests and all."""
    copy = tmp_path / "copy"
    shutil.copytree(board, copy)
    found = evidence.gather(copy)
    for told in found.records:
        Store(copy / "records").write(told.model_copy(update=change(told)))
    names = sorted(file.name for file in (copy / "records").glob("*.json"))
    evidence.write_sums(copy / "records", {name: evidence.digest_of(copy / "records" / name) for name in names})
    return copy


def test_a_figure_that_was_made_up_is_found_out(real, tmp_path):
    copy = rewritten(real, tmp_path, lambda told: {"metrics": told.metrics | {"accuracy": 0.99}})
    assert [verdict.how for verdict in verifying.verify(copy, 1, 0, [])[0]] == ["different"]
    assert invoke("verify", copy, "--sample", 1).exit_code == 1


def elsewhere(told):
    return {"manifest": told.manifest | {"processor": "another"}}


def test_on_another_processor_a_sound_leaderboard_is_reproduced(real, tmp_path):
    board = rewritten(real, tmp_path, elsewhere)
    ((verdict,), _) = verifying.verify(board, 1, 0, [])
    assert verdict.how == "reproduced"
    assert "another processor" in verdict.why
    assert invoke("verify", board, "--sample", 1).exit_code == 0


def forged(real, tmp_path, harm):
    """A leaderboard of another processor, in which the metrics of the first cell that is verified were altered."""
    chosen = verifying._chosen(evidence.gather(real), 1, 0, reported=False)[0].id

    def change(told):
        return elsewhere(told) | {"metrics": told.metrics | (harm(told.metrics) if told.id == chosen else {})}

    return rewritten(real, tmp_path, change), chosen


@pytest.mark.parametrize(
    "harm",
    [
        *({"accuracy": 0.0}, {"attack_success_rate": 1.0}, {"diverged": True}, {"test_loss": 100.0}),
        {"source_accuracy": None},
    ],
)
def test_a_figure_made_up_for_one_cell_is_found_out_on_another_machine_too(real, tmp_path, harm):
    board, chosen = forged(real, tmp_path, lambda _: harm)
    ((verdict,), _) = verifying.verify(board, 1, 0, [])
    assert verdict.record.id == chosen
    assert verdict.how == "different"


@pytest.mark.parametrize("points", [0.1, 0.015])
@pytest.mark.parametrize("metric", ["accuracy", "source_accuracy"])
def test_a_figure_altered_by_some_points_does_not_pass_on_another_processor(real, tmp_path, metric, points):
    def altered(metrics):
        return {metric: metrics[metric] + (points if metrics[metric] < 0.5 else -points)}

    board, chosen = forged(real, tmp_path, altered)
    ((verdict,), _) = verifying.verify(board, 1, 0, [])
    assert verdict.record.id == chosen
    assert verdict.how in ("plausible, not reproduced", "different")
    assert metric in verdict.why
    assert invoke("verify", board, "--sample", 1).exit_code == 1


def test_a_figure_beyond_what_processors_differ_by_is_plausible_where_other_seeds_come_to_it(real, tmp_path):
    seen = evidence.gather(real).records
    spread = {told.id: told.configuration["seed"] % 3 / 10 for told in seen}

    def change(told):
        return elsewhere(told) | {
            "metrics": told.metrics | {"accuracy": told.metrics["accuracy"] / 2 + spread[told.id]}
        }

    verdicts = verifying.verify(rewritten(real, tmp_path, change), 3, 0, [])[0]
    assert "plausible, not reproduced" in [verdict.how for verdict in verdicts]
    assert not any(verdict.holds for verdict in verdicts)


def test_intervals_of_shares_stay_within_0_and_1():
    assert prediction([0.9, 0.95, 0.99], 0.99, share=True)[1] == 1.0
    assert prediction([0.0, 0.05, 0.01], 0.99, share=True)[0] == 0.0
    assert prediction([0.9, 0.95, 0.99], 0.99)[1] > 1.0


@given(st.sampled_from(sorted(verifying.DRIFT)), st.floats(0, 1))
def test_no_share_drifts_by_more_than_three_points(name, value):
    if verifying._is_share(name):
        assert verifying.drift(name, value) <= 0.03


def test_verify_tells_of_altered_evidence_too(real, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(real, copy)
    damage(sorted((copy / "records").glob("*.json"))[0], "altered")
    found = invoke("verify", copy, "--sample", 1)
    assert found.exit_code == 1
    assert "is not what SHA256SUMS says" in found.output


PLUGIN = '''"""Their rule."""
from fflbench.registry import defense


@defense("their-rule", title="Their rule")
def their_rule(updates):
    """The plain mean."""
    return updates.mean(0)
'''


@pytest.fixture(scope="module")
def made_elsewhere(tmp_path_factory):
    """Records as outsiders make them: in a process of their own, with their plugin."""
    folder = tmp_path_factory.mktemp("elsewhere")
    plugin, suite = folder / "their_plugin.py", folder / "tiny.toml"
    plugin.write_text(PLUGIN)
    suite.write_text(
        'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["their-rule"]\nseeds = [0, 1]\n'
        "[overrides]\nrounds = 2\n"
    )
    command = [sys.executable, "-m", "fflbench", "run", str(suite), "--plugin", str(plugin), "--out", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "tiny", plugin


@pytest.fixture
def theirs(real, made_elsewhere, tmp_path):
    """An entry from outside, a leaderboard, and the plugin."""
    records, plugin = made_elsewhere
    entry = tmp_path / "entry"
    (entry / "records").mkdir(parents=True)
    for file in records.glob("*.json"):
        shutil.copy(file, entry / "records")
    names = [file.name for file in (entry / "records").glob("*.json")]
    evidence.write_sums(entry / "records", {name: evidence.digest_of(entry / "records" / name) for name in names})
    told = {"name": "their-rule", "link": "https://example.org/rule", "citation": "They, 2026."}
    (entry / "entry.json").write_text(json.dumps(told))
    board = tmp_path / "boards" / "tiny"
    shutil.copytree(real, board)
    return entry, board, plugin


def test_an_entry_from_outside_is_marked_as_reported_until_it_is_run_again(theirs):
    entry, board, plugin = theirs
    assert invoke("leaderboard", board, "--add", entry).exit_code == 0
    assert "reported, not run again" in (board / "README.md").read_text()
    command = [sys.executable, "-m", "fflbench", "verify", str(board), "--plugin", str(plugin), "--sample", "1"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "same bits" in found.stdout
    assert invoke("leaderboard", board).exit_code == 0
    assert "1 cells run again" in (board / "README.md").read_text()


@pytest.mark.parametrize("harm", ["altered", "no digests", "no entry", "bad link", "claims to be verified", "twice"])
def test_entries_that_do_not_hold_are_refused_and_leave_no_trace(theirs, harm):
    entry, board, _ = theirs
    told = json.loads((entry / "entry.json").read_text())
    if harm == "altered":
        damage(next((entry / "records").glob("*.json")), "altered")
    elif harm == "no digests":
        (entry / "records" / "SHA256SUMS").unlink()
    elif harm == "no entry":
        (entry / "entry.json").unlink()
    elif harm == "bad link":
        (entry / "entry.json").write_text(json.dumps(told | {"link": "javascript:alert(1)"}))
    elif harm == "claims to be verified":
        (entry / "entry.json").write_text(json.dumps(told | {"verified": ["0" * 16]}))
    else:
        leaderboard.generate(board, None, add=entry)
    before = contents_of(board)
    with pytest.raises(RecordError):
        leaderboard.generate(board, None, add=entry)
    assert contents_of(board) == before


def without_pictures(content):
    return content and re.sub(rb"data:image/[^\"]*", b"", content)


def test_committed_leaderboards_come_out_of_their_records_again(tmp_path):
    boards_there = sorted(path.parent for path in COMMITTED.glob("*/records"))
    assert boards_there
    for board in boards_there:
        copy = tmp_path / board.name
        shutil.copytree(board, copy)
        for room in ("tables", "figures"):
            shutil.rmtree(copy / room)
        leaderboard.generate(copy, None)
        was, now = contents_of(board), contents_of(copy)
        # Pictures may differ by the version of what draws them; their numbers stand beside them.
        exact = [name for name in was if not name.endswith((".png", ".svg"))]
        assert {name: without_pictures(now.get(name)) for name in exact} == {
            name: without_pictures(was[name]) for name in exact
        }
        assert set(now) == set(was)


def test_every_figure_names_the_records_behind_it():
    found = evidence.gather(COMMITTED / "quick")
    known = {record.id: record for record in found.records}
    board = boards.board(found.suite, found.records)
    told = [
        (panel, row, cell)
        for panel in board.panels
        for row in panel.rows
        for cell in row.cells
        if cell.mean is not None
    ]
    for panel, row, cell in told:
        assert cell.records, (panel.name, row.label)
        labels = {known[name].labels["defense"] for name in cell.records}
        assert row.label.removesuffix(" (no attacks)").split(", strategy")[0].split(", pads")[0] in " ".join(labels)
        if panel.section == "overall" and cell.seeds:
            assert len({known[name].configuration["seed"] for name in cell.records}) >= cell.seeds


@pytest.mark.parametrize(
    "task", ["../../evil", "x/../../../../PWNED/f", "/etc/evil", "..", "$\\bad{$", "=HYPERLINK(1)", "[x]", "a" * 119]
)
def test_names_of_tasks_are_only_names(tmp_path, measured, task):
    evil = [record(task=task, label="<script>alert(1)</script>"), record(task=task, attack="gaussian-noise")]
    # The same task has costs: every table's name is made of it.
    evil += [
        told.model_copy(update={"labels": told.labels | {"task": task}})
        for told in measured
        if told.labels["measure"].startswith(("runtime", "communication"))
    ]
    out = tmp_path / "a" / "b" / "c" / "boards" / "own"
    found = invoke("leaderboard", written(tmp_path / "a" / "one", evil), "--out", out)
    assert found.exit_code == 0, found.output
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert all(name.startswith(("a/one/", "a/b/c/boards/")) for name in made)
    assert "<script>" not in (out / "README.md").read_text()
    for file in (out / "tables").glob("*.csv"):
        assert not any(line.startswith(("=", "+", "-", "@")) for line in file.read_text().splitlines())


def test_a_suite_called_like_a_path_stays_where_leaderboards_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = record().model_copy(update={"suite": "../../evil"})
    assert invoke("leaderboard", written(tmp_path / "one", [evil])).exit_code == 0
    assert (tmp_path / "leaderboards" / "evil" / "README.md").exists()


def test_what_is_no_leaderboard_is_left_alone(tmp_path):
    source = written(tmp_path / "one", WHOLE)
    thesis = tmp_path / "thesis" / "figures" / "mine.pdf"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine")
    with pytest.raises(RecordError, match="is no leaderboard"):
        leaderboard.generate(source, tmp_path / "thesis")
    (tmp_path / "README.md").write_text("# My project")
    board, _ = leaderboard.generate(source, tmp_path / "board")
    (board / "records" / "note.txt").write_text("mine")
    (board / "records" / "mine.csv").write_text("mine")
    (board / "figures" / "mine.pdf").write_text("mine")
    leaderboard.generate(source, board)
    assert (tmp_path / "README.md").read_text() == "# My project"
    assert (board / "records" / "note.txt").exists()
    assert (board / "records" / "mine.csv").exists()
    assert (board / "figures" / "mine.pdf").exists()


def test_a_failed_or_missing_attack_never_makes_a_defense_look_private(measured):
    def leak(records):
        return cell(panel(boards.board("own", records), "privacy-1"), "ffl", "worst")

    adaptive = [told for told in measured if told.labels["defense"] == "ffl" and "unmixed" in told.labels["measure"]]
    failed = [
        told.model_copy(update={"status": "failed", "error": "x", "metrics": {}, "facts": {}})
        if told in adaptive
        else told
        for told in measured
    ]
    assert leak(failed).text == "2 of 4 failed"
    assert leak([told for told in measured if told is not adaptive[0]]).text == "1 of 4 missing"
    assert leak(measured).mean > 40


def test_survivors_of_a_troubled_row_are_not_compared():
    def broken(told):
        return told.model_copy(update={"metrics": told.metrics | {"diverged": True}})

    chosen = next(
        told for told in WHOLE if told.labels["attack"] == "gaussian-noise" and told.labels["defense"] == "median"
    )
    records = [broken(told) if told is chosen else told for told in WHOLE]
    found = panel(boards.board("own", records), "digits-mlp-gaussian-noise")
    assert cell(found, "median", "accuracy_against_fedavg").mean is None
    without = [told for told in WHOLE if told is not WHOLE[0]]
    found = panel(boards.board("own", without), "digits-mlp-summary")
    assert cell(found, "median", "clean_cost").text == "no attack-free baseline"


def test_costs_of_one_setting_stand_in_a_row(measured):
    (cost,) = (told for told in measured if "runtime" in told.labels["measure"] and told.configuration["seed"] == 0)
    parameters = cost.configuration["measure"]["parameters"] | {"updates": 1000}
    other = cost.configuration | {"measure": {"name": "runtime", "parameters": parameters}}
    larger = cost.model_copy(
        update={"configuration": other, "id": identify(other), "metrics": cost.metrics | {"seconds": 100.0}}
    )
    found = panel(boards.board("own", [*WHOLE, cost, larger]), "overall-digits-mlp")
    assert cell(found, "median", "server_seconds").mean < 1


@pytest.mark.parametrize("harm", ["our name", "their seed", "their task", "another aim"])
def test_an_entry_may_add_a_defense_and_change_nothing_else(theirs, harm):
    entry, board, _ = theirs
    (file, *_) = sorted((entry / "records").glob("*.json"))
    told = json.loads(file.read_text())
    if harm == "our name":
        told["labels"]["defense"] = "fedavg"
    elif harm == "their seed":
        told["configuration"]["seed"] = 99
    elif harm == "their task":
        told["configuration"]["task"]["parameters"]["rounds"] = 1
    else:
        told["facts"]["targeted"] = True
    told["id"] = identify(told["configuration"])
    file.unlink()
    (file.parent / f"{told['id']}.json").write_text(json.dumps(told))
    names = [each.name for each in file.parent.glob("*.json")]
    evidence.write_sums(file.parent, {name: evidence.digest_of(file.parent / name) for name in names})
    with pytest.raises(RecordError, match="the entry is not taken"):
        leaderboard.generate(board, None, add=entry)


def test_an_entry_goes_into_a_leaderboard_and_not_into_results(theirs, tmp_path):
    entry, _, _ = theirs
    with pytest.raises(RecordError, match="is no leaderboard"):
        leaderboard.generate(written(tmp_path / "one", WHOLE), None, add=entry)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["history"][0].update(trust={"abc": 1.0}),
        lambda told: told["configuration"]["attack"]["parameters"].update(strategy=[1]),
        lambda told: told["configuration"].update(suite=3),
        lambda told: told["configuration"].update(measure={"name": "runtime", "parameters": {}}),
        lambda told: told["metrics"].update(accuracy=1e200),
        lambda told: told["labels"].update(task="a" * 300),
        lambda told: told["labels"].update(task="a\0b"),
    ],
)
def test_records_that_hold_what_no_table_can_show_are_named(tmp_path, change):
    told = content_of(WHOLE[0])
    change(told)
    told["id"] = identify(told["configuration"])
    written(tmp_path, WHOLE[1:])
    (tmp_path / f"{told['id']}.json").write_text(json.dumps(told))
    found = evidence.gather(tmp_path)
    assert any(told["id"] in problem for problem in found.problems)
    assert len(found.records) == len(WHOLE) - 1


def test_worst_and_excess_are_the_functions_the_tables_use():
    (task,) = robust.tasks(WHOLE)
    assert robust.worst_accuracy(task, "fedavg") == pytest.approx({0: 0.3, 1: 0.31, 2: 0.32})
    assert robust.worst_excess(task, "median") == pytest.approx({0: 0.1, 1: 0.1, 2: 0.1})


def test_every_curve_of_the_table_is_in_the_picture(measured):
    records = [*WHOLE, *measured]
    (task,) = (told for told in robust.tasks(records) if told.attacks)
    figure, table = figures._accuracy(task)
    drawn = {
        (axis.get_title(), line.get_label(), tuple(line.get_ydata())) for axis in figure.axes for line in axis.lines
    }
    told = {}
    for attack, defense, _, mean, *_ in table[1:]:
        title = "no attack" if attack == "none" else attack
        told.setdefault((title, defense), []).append(100 * mean)
    assert drawn == {(*key, tuple(values)) for key, values in told.items()}
    assert len(drawn) == 8
    board = boards.board("own", records)
    figure, table = figures._scatter(panel(board, "overall-digits-mlp"))
    assert [row[0] for row in table[1:] if None not in row[1:3]] == ["fedavg"]
    assert "fedavg" in [text.get_text() for text in figure.axes[0].texts]


def test_a_threat_model_leaves_out_who_knows_more(tmp_path, measured):
    helped = [
        told.model_copy(update={"facts": told.facts | {"knows": ["server view", "who exchanged with whom"]}})
        if "unmixed" in told.labels["measure"]
        else told
        for told in measured
    ]
    source = written(tmp_path / "one", [*WHOLE, *helped])
    alone = invoke("leaderboard", source, "--out", tmp_path / "alone", "--knows", "own data", "--knows", "server view")
    assert alone.exit_code == 0, alone.output
    columns = {
        name: (tmp_path / name / "tables" / "privacy-1.csv").read_text()
        for name in ("alone", "all")
        if name == "alone" or invoke("leaderboard", source, "--out", tmp_path / "all").exit_code == 0
    }
    assert "unmixed" in columns["all"]
    assert "unmixed" not in columns["alone"]
    assert "Attackers who must know more" in (tmp_path / "alone" / "README.md").read_text()
    assert invoke("leaderboard", source, "--out", tmp_path / "x", "--knows", "everything").exit_code != 0

"""Figures and the numbers beside them."""

import csv
import io
from statistics import fmean

import numpy as np
import pytest
from matplotlib.figure import Figure

from fflbench.report import dot_plots, page
from fflbench.report import figure_files as pictures
from fflbench.report import figures as drawing
from fflbench.report import image_grid as image_grids
from fflbench.report.all_tables import build_board
from fflbench.report.figure_files import ReportFigure, with_distinct_names
from fflbench.report.figures import draw_figures
from fflbench.report.image_grid import image_grid
from fflbench.report.statistics import estimate_mean
from tests.report.synthetic_records import (
    WHOLE,
    as_failed,
    make_record,
    membership_record,
    no_arrays,
    reconstruction_record,
    robustness_record,
    runtime_record,
)


def draw_all_figures(records, arrays=no_arrays):
    return draw_figures(records, build_board("own", records), arrays)


def draw_figure_named(records, name_prefix, arrays=no_arrays):
    found = draw_all_figures(records, arrays)
    names = [each.name for each in found]
    (picture,) = (each for each in found if each.name.startswith(name_prefix))
    assert picture.name in names
    return picture


def csv_rows(figure):
    return list(csv.DictReader(io.StringIO(figure.files["csv"].decode())))


@pytest.fixture
def laid_out(monkeypatch):
    """Keeps the matplotlib figures that pictures are made of."""
    kept = {}

    def keep(name, section, caption, figure, numbers=()):
        kept[name] = figure
        return ReportFigure(name, section, caption, figure, numbers)

    for module in (drawing, dot_plots):
        monkeypatch.setattr(module, "ReportFigure", keep)
    return kept


# Curves


def test_a_curve_is_the_mean_over_seeds_and_every_line_of_the_numbers_is_drawn(laid_out):
    picture = draw_figure_named(WHOLE, "accuracy-")
    expected = {}
    for each in WHOLE:
        for item in each.history:
            place = each.labels["attack"], each.labels["defense"], item["round"]
            expected.setdefault(place, []).append(item["accuracy"])
    found = {(line["attack"], line["line"], int(line["round"])): line for line in csv_rows(picture)}
    assert set(found) == set(expected)
    for place, values in expected.items():
        assert float(found[place]["mean"]) == pytest.approx(fmean(values))
        assert float(found[place]["half_width_95"]) == pytest.approx(estimate_mean(values).half_width, abs=1e-9)
        assert found[place]["seeds"] == "3"
    (figure,) = (figure for name, figure in laid_out.items() if name.startswith("accuracy-"))
    assert [axis.get_title() for axis in figure.axes if axis.get_visible()] == [
        # The attacks by the harm they do to fedavg.
        *("no attack", "noise-control", "gaussian-noise", "label-flipping")
    ]
    shown = [tuple(line.get_ydata()) for axis in figure.axes for line in axis.lines]
    by_line = {}
    for (attack, line, _), values in expected.items():
        by_line.setdefault((attack, line), []).append(100 * fmean(values))
    np.testing.assert_allclose(np.sort(shown, axis=0), np.sort(list(by_line.values()), axis=0))


def test_rounds_that_were_not_evaluated_are_no_points_of_a_curve(laid_out):
    evaluated = {2: 0.4, 4: 0.6, 5: 0.7}
    history = [{"round": number, **({"accuracy": evaluated[number]} if number in evaluated else {})}
               for number in range(1, 6)]  # fmt: skip
    records = [
        robustness_record(defense=name, seed=seed, history=history) for name in ("fedavg", "median") for seed in (0, 1)
    ]
    picture = draw_figure_named(records, "accuracy-")
    for name in ("fedavg", "median"):
        line = {int(row["round"]): float(row["mean"]) for row in csv_rows(picture) if row["line"] == name}
        assert line == evaluated
    (axis,) = laid_out[picture.name].axes
    assert list(axis.lines[0].get_xdata()) == list(evaluated)
    assert page._first_history_curve(records[0]) == ("accuracy over rounds", [0.4, 0.6, 0.7])


def test_a_band_of_percentages_stays_within_0_and_100(laid_out):
    draw_figure_named(
        [robustness_record(seed=seed, accuracy=value) for seed, value in enumerate((0.0, 1.0))], "accuracy-"
    )
    figure = laid_out["accuracy-digits-mlp-robustness"]
    band = figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0, 100)


def test_failed_and_unfinished_histories_break_no_curve():
    records = [
        as_failed(robustness_record()),
        robustness_record(seed=1),
        robustness_record(seed=2, history=[{"round": 1, "accuracy": 0.4}]),
    ]
    lines = csv_rows(draw_figure_named(records, "accuracy-"))
    # Round 2 is reached by one of two seeds alone.
    assert [(line["round"], float(line["mean"])) for line in lines] == [("1", pytest.approx((0.3 + 0.4) / 2))]
    assert not any(each.name.startswith("accuracy-") for each in draw_all_figures([as_failed(robustness_record())]))


def test_trust_is_drawn_for_every_deviation_and_accuracy_for_the_worst():
    records = [
        robustness_record(
            "gaussian-noise",
            defense="ffl",
            accuracy=accuracy,
            deviation={"strategy": strategy},
            history=[{"round": 1, "accuracy": accuracy, "honest_trust_of_all": 0.5}],
        )
        for strategy, accuracy in ((1, 0.9), (3, 0.8))
    ]
    trust = csv_rows(draw_figure_named(records, "trust"))
    assert {row["line"] for row in trust} == {"ffl, strategy = 1, honest", "ffl, strategy = 3, honest"}
    accuracy = csv_rows(draw_figure_named(records, "accuracy"))
    assert {row["line"] for row in accuracy} == {"ffl, strategy = 3"}


def test_trust_of_honest_participants_and_attackers_are_two_lines():
    history = [
        {"round": n, "accuracy": 0.5, "honest_trust_of_all": n / 5, "attacker_trust_of_all": n / 10} for n in (1, 2)
    ]
    lines = csv_rows(draw_figure_named([robustness_record(defense="ffl", history=history)], "trust-"))
    assert {(line["line"], float(line["round"]), float(line["mean"])) for line in lines} == {
        *(("ffl, honest", 1, 0.2), ("ffl, honest", 2, 0.4), ("ffl, attackers", 1, 0.1), ("ffl, attackers", 2, 0.2))
    }


def test_a_roc_curve_is_that_of_the_strongest_observation(laid_out):
    records = [
        membership_record(
            defense="ffl",
            seed=seed,
            observation=observation,
            auc=area,
            history=[{"fpr": 0.5, "tpr": rate + 0.1 * seed}],
        )
        for seed in (0, 1)
        for observation, area, rate in (("submission", 0.5, 0.5), ("pair-sum", 0.9, 0.8))
    ]
    (line,) = csv_rows(draw_figure_named(records, "roc-"))
    assert (float(line["fpr"]), float(line["mean"])) == (0.5, pytest.approx(0.85))
    (figure,) = (figure for name, figure in laid_out.items() if name.startswith("roc-"))
    assert figure.axes[0].get_xscale() == figure.axes[0].get_yscale() == "log"
    assert "chance" in [text.get_text() for text in figure.legends[0].texts]


def test_of_many_attacks_those_that_harm_fedavg_most_are_drawn_and_all_have_numbers(laid_out):
    records = [robustness_record(f"attack {n}", accuracy=n / 20) for n in range(12)]
    picture = draw_figure_named(records, "accuracy-")
    (figure,) = (figure for name, figure in laid_out.items() if name.startswith("accuracy-"))
    assert [axis.get_title() for axis in figure.axes if axis.get_visible()] == [f"attack {n}" for n in range(9)]
    assert {line["attack"] for line in csv_rows(picture)} == {f"attack {n}" for n in range(12)}


# Tables as pictures


def test_shares_by_attack_are_a_heatmap_with_its_numbers(laid_out):
    picture = draw_figure_named(WHOLE, "heatmap-")
    found = {(line["row"], line["column"]): float(line["mean"]) for line in csv_rows(picture)}
    assert found["median", "gaussian-noise"] == pytest.approx(0.86)
    assert found["fedavg", "worst"] == pytest.approx(0.31)
    (figure,) = (figure for name, figure in laid_out.items() if name.startswith("heatmap-"))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [f"{100 * value:.1f}" for value in found.values()]


def test_a_heatmap_of_many_attacks_and_defenses_fits_a_landscape_page(laid_out):
    records = [
        as_failed(robustness_record(seed=0, attack=f"attack-{column}", defense=f"defense-{row}", accuracy=0.5))
        if row == column == 3
        else robustness_record(seed=0, attack=f"attack-{column}", defense=f"defense-{row}", accuracy=0.5)
        for row in range(28)
        for column in range(27)
    ]
    draw_figure_named(records, "heatmap-")
    (figure,) = (figure for name, figure in laid_out.items() if name.startswith("heatmap-"))
    width, height = figure.get_size_inches()
    assert width <= 13
    assert height <= 9
    assert {text.get_text() for text in figure.axes[0].texts} == {"50", drawing.MISSING}


def test_every_headline_metric_is_drawn_as_a_heatmap_or_as_dots():
    found = csv_rows(draw_figure_named(WHOLE, "dots-digits-mlp-robustness"))
    # Attack success has one column alone; accuracy has a heatmap.
    assert {(line["metric"], line["column"]) for line in found} == {("attack_success_rate", "label-flipping")}
    inferred = [
        membership_record(seed=s, observation=t, auc=0.6, rate=0.02) for s in (0, 1) for t in ("submission", "pair-sum")
    ]
    lines = csv_rows(draw_figure_named(inferred, "dots-"))
    assert {line["metric"] for line in lines} == {"auc", "tpr_at_fpr_0.01"}
    assert {float(line["mean"]) for line in lines} == {0.6, 0.02}


def test_times_that_span_powers_of_ten_have_a_logarithmic_axis(laid_out):
    draw_figure_named([runtime_record(seconds=0.001), runtime_record("median", seconds=1.0)], "dots-")
    assert laid_out["dots-digits-mlp-runtime"].axes[0].get_xscale() == "log"
    draw_figure_named([runtime_record(seconds=0.9), runtime_record("median", seconds=1.0)], "dots-")
    assert laid_out["dots-digits-mlp-runtime"].axes[0].get_xscale() == "linear"


def test_robustness_is_drawn_against_privacy_with_every_defense_that_has_both(laid_out):
    records = [
        *WHOLE,
        *(membership_record(defense=name, seed=s) for name in ("fedavg", "ffl") for s in range(3)),
        runtime_record(),
    ]
    lines = csv_rows(draw_figure_named(records, "scatter-"))
    assert [line["defense"] for line in lines] == ["median", "fedavg", "ffl"]
    assert [line["defense"] for line in lines if line["worst_accuracy"] and line["membership-auc"]] == ["fedavg"]
    (figure,) = (figure for name, figure in laid_out.items() if name.startswith("scatter-"))
    assert [text.get_text() for text in figure.axes[0].texts] == ["fedavg"]
    assert not any(each.name.startswith("scatter-") for each in draw_all_figures(WHOLE))


# Images


def test_what_was_rebuilt_stands_below_the_originals():
    records = [
        reconstruction_record(name, seed, observation)
        for name in ("fedavg", "ffl")
        for seed in (0, 1)
        for observation in ("submission", "unmixed")
    ]
    images = {"originals": np.zeros((1, 2, 1, 1, 4, 4)), "found": np.ones((1, 2, 1, 1, 4, 4))}
    asked = []

    def arrays(of):
        asked.append(of)
        return images

    picture = draw_figure_named(records, "grid-", arrays)
    assert picture.files["png"].startswith(b"\x89PNG")
    assert {each.seed for each in asked} == {0}
    assert picture.section == "Privacy"
    assert not any(each.name.startswith("grid-") for each in draw_all_figures(records))
    assert not any(each.name.startswith("grid-") for each in draw_all_figures([runtime_record()], arrays))


def test_every_image_of_one_or_three_channels_is_in_its_place_of_the_grid(monkeypatch):
    figures = []
    monkeypatch.setattr(image_grids, "encode_figure", lambda figure, kind: figures.append(figure) or b"")
    rng = np.random.default_rng(0)
    grey, colour = rng.uniform(size=(2, 1, 4, 5)), rng.uniform(size=(2, 3, 4, 5))
    colour[1] = np.nan
    image_grid("T", [("a", grey), ("b", colour)])
    (axis,) = figures[0].axes
    grid = axis.images[0].get_array()
    for row, images in enumerate((grey, colour)):
        middle = axis.get_yticks()[row]
        for column, image in enumerate(images):
            left, top = 1 + column * (5 + 1), round(middle - 1.5)
            expected = np.broadcast_to(np.nan_to_num(image, nan=1.0), (3, 4, 5)).transpose(1, 2, 0)
            np.testing.assert_array_equal(grid[top : top + 4, left : left + 5], expected)
    (missing,) = axis.texts
    assert missing.get_text() == "not attacked"
    assert grid[round(missing.get_position()[1]), round(missing.get_position()[0])].tolist() == [1, 1, 1]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a", "b"]


# All pictures


EVERY = [
    *WHOLE,
    *(membership_record(seed=s, observation=t) for s in (0, 1) for t in ("submission", "pair-sum")),
    runtime_record(),
    reconstruction_record(),
]


def test_the_same_records_give_the_same_bytes():
    first, second = draw_all_figures(EVERY), draw_all_figures(EVERY)
    assert [(each.name, each.files) for each in first] == [(each.name, each.files) for each in second]
    assert {name for each in first for name in each.files} == {"svg", "png", "csv"}


def test_no_two_pictures_have_one_name():
    tasks = ("a b", "a-b", "../a")
    found = draw_all_figures([robustness_record(task=task) for task in tasks])
    names = [each.name for each in found]
    assert len(set(names)) == len(names) >= 3
    assert not any("/" in name or name.startswith(".") for name in names)
    same = [ReportFigure("x", "Cost", "", b"")] * 3
    assert [each.name for each in with_distinct_names(same)] == ["x", "x-2", "x-3"]


def test_dollars_are_no_formula_and_no_letter_is_worth_a_warning():
    name = "$\\bad{$ 漢 $x^2$"
    for each in draw_all_figures([robustness_record(defense=name, seed=seed, task=name) for seed in (0, 1)]):
        assert b"<svg" in each.files["svg"]
        assert b"$\\bad{$" in each.files["svg"]


def test_lines_differ_in_more_than_their_colour():
    looks = [pictures.line_style(place) for place in range(24)]
    assert len({(look["marker"], look["linestyle"]) for look in looks}) == 24


def test_a_measure_whose_plugin_is_not_here_has_its_first_figure_drawn():
    lines = csv_rows(draw_figure_named([make_record("theirs", {"warmth": 20.0 + s}, seed=s) for s in (0, 1)], "dots-"))
    assert [(line["metric"], float(line["mean"])) for line in lines] == [("warmth", 20.5)]


def test_a_picture_without_numbers_has_no_csv():
    figure = Figure()
    figure.subplots()
    made = ReportFigure("a-picture", "Cost", "c", figure)
    assert list(made.files) == ["svg", "png"]
    assert (made.name, made.page_file_name) == ("a-picture", "a-picture.svg")

"""Worst cases over attacks, and what attacks gain beyond what happens without them."""

from statistics import fmean

import numpy as np
import pytest

from fflbench.execution.run_cell import run_cell
from fflbench.report.all_tables import build_board
from fflbench.report.statistics import estimate_mean, worst_mean
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.report.synthetic_records import (
    WHOLE,
    as_diverged,
    as_failed,
    as_undefined,
    change_records_with_labels,
    find_cell,
    find_table,
    label_flipping_goal,
    records_of_three_seeds,
    records_with_labels,
    robustness_record,
)

SUMMARY = "digits-mlp-summary"


def build_summary_table(records):
    return find_table(build_board("own", records), SUMMARY)


def test_the_summary_has_the_worst_accuracy_every_excess_and_the_cost_without_attack():
    found = build_summary_table(WHOLE)
    assert [column.name for column in found.columns] == [
        *("rank", "worst_accuracy", "attacks", "mean_accuracy", "label-flipping", "clean_cost")
    ]
    assert (find_cell(found, "median", "rank").mean, find_cell(found, "fedavg", "rank").mean) == (1, 2)
    assert find_cell(found, "median", "attacks").mean == 2
    assert find_cell(found, "fedavg", "worst_accuracy").mean == pytest.approx(fmean((0.3, 0.31, 0.32)))
    assert find_cell(found, "median", "worst_accuracy").mean == pytest.approx(0.86)
    assert find_cell(found, "median", "worst_accuracy").mark == "best"
    assert find_cell(found, "fedavg", "label-flipping").mean == pytest.approx(0.5)
    assert find_cell(found, "median", "clean_cost").mean == pytest.approx(-0.02)


@pytest.mark.parametrize("seed", range(5))
def test_worst_and_excess_are_as_defined(seed):
    rng = np.random.default_rng(seed)
    untargeted, defenses, seeds = ("gaussian-noise", "noise-control"), ("fedavg", "median"), range(3)
    places = [(a, d, s) for a in ("none", *untargeted, "label-flipping") for d in defenses for s in seeds]
    accuracy, success = ({place: float(rng.uniform()) for place in places} for _ in range(2))
    found = build_summary_table([robustness_record(*place, accuracy[place], success[place]) for place in places])
    for d in defenses:
        by_attack = {a: [accuracy[a, d, s] for s in seeds] for a in untargeted}
        worst = min(untargeted, key=lambda attack: fmean(by_attack[attack]))
        shown = find_cell(found, d, "worst_accuracy")
        assert shown.mean == pytest.approx(fmean(by_attack[worst]))
        assert shown.note == worst
        interval = worst_mean({a: dict(enumerate(values)) for a, values in by_attack.items()}, highest=False)
        assert (shown.low, shown.high) == pytest.approx(interval.estimate.interval)
        mean = [fmean(accuracy[a, d, s] for a in untargeted) for s in seeds]
        excess = [success["label-flipping", d, s] - success["none", "fedavg", s] for s in seeds]
        cost = [accuracy["none", d, s] - accuracy["none", "fedavg", s] for s in seeds]
        for name, values in (("mean_accuracy", mean), ("label-flipping", excess), ("clean_cost", cost)):
            place, expected = find_cell(found, d, name), estimate_mean(values)
            assert place.mean == pytest.approx(expected.mean)
            low = max(expected.mean - expected.half_width, 0.0 if name == "mean_accuracy" else -1.0)
            assert place.low == pytest.approx(low)


def test_the_worst_excess_is_the_highest_mean_over_seeds():
    free = [robustness_record(seed=seed, success=0.1) for seed in (0, 1)]
    flips = [
        robustness_record(
            "label-flipping", seed=seed, success=value, labels={"attack": name}, parameters={"attack": {"share": place}}
        )
        for place, (name, values) in enumerate((("flip 1", (0.9, 0.2)), ("flip 2", (0.4, 0.8))))
        for seed, value in enumerate(values)
    ]
    assert find_cell(build_summary_table(free + flips), "fedavg", "worst_excess").mean == pytest.approx(
        (0.4 + 0.8) / 2 - 0.1
    )


TARGETS = {1: (0.9, 0.5), 2: (0.6, 0.8), 3: (0.2, 0.25)}
"""Attack success on FedAvg by target class, for two seeds."""
BY_CHANCE = {1: (0.5, 0.05), 2: (0.1, 0.5), 3: (0.0, 0.1)}
"""The same without attackers."""


def records_with_several_goals(defense="fedavg"):
    """Label flips with different targets, and cells without attackers that are scored for all of them."""
    goals = [label_flipping_goal(target=target) for target in TARGETS]
    clean = [
        robustness_record(
            defense=defense, seed=seed, success=[rates[seed] for rates in BY_CHANCE.values()], goals=goals
        )
        for seed in (0, 1)
    ]
    flips = [
        robustness_record(
            *("label-flipping", defense, seed, 0.9, rates[seed]),
            labels={"attack": f"flip to {target}"},
            parameters={"attack": {"target": target, "share": 0.2}},
        )
        for target, rates in TARGETS.items()
        for seed in (0, 1)
    ]
    return clean + flips


def test_every_attack_is_compared_with_the_success_by_chance_of_its_own_goal():
    found = build_summary_table(records_with_several_goals())
    for target, rates in TARGETS.items():
        expected = fmean(rate - BY_CHANCE[target][seed] for seed, rate in enumerate(rates))
        assert find_cell(found, "fedavg", f"flip to {target}").mean == pytest.approx(expected)
    # The first target has the highest excess by the mean over seeds, and the second one the highest success.
    assert find_cell(found, "fedavg", "worst_excess").mean == pytest.approx(fmean((0.9 - 0.5, 0.5 - 0.05)))


def test_a_row_without_attack_shows_metrics_for_the_goal_of_the_tables_attack():
    board = build_board("own", records_with_several_goals())
    for target, rates in BY_CHANCE.items():
        found = find_table(board, f"digits-mlp-robustness-flip-to-{target}")
        assert find_cell(found, "fedavg (no attack)", "attack_success_rate").mean == pytest.approx(fmean(rates))


def test_other_defenses_are_compared_with_the_baseline_without_attack_goal_by_goal():
    records = [*records_with_several_goals(), *records_with_several_goals("median")]
    hit = change_records_with_labels(
        records,
        lambda each: each.model_copy(update={"metrics": each.metrics | {"attack_success_rate": 1.0}}),
        attack="flip to 2",
        defense="median",
    )
    found = build_summary_table(hit)
    assert find_cell(found, "median", "worst_excess").mean == pytest.approx(fmean((0.9, 0.5)))
    behind = find_cell(found, "median", "flip to 2").records
    clean = records_with_labels(hit, attack="none", defense="fedavg")
    assert set(behind) == {
        each.id for each in [*clean, *records_with_labels(hit, attack="flip to 2", defense="median")]
    }


@pytest.mark.parametrize("harm", [as_failed, as_diverged])
def test_a_baseline_in_trouble_leaves_no_excess(harm):
    found = build_summary_table(change_records_with_labels(records_with_several_goals(), harm, attack="none", seed=0))
    assert find_cell(found, "fedavg", "flip to 1").text == "no attack-free baseline"


def test_rates_that_are_not_one_for_each_goal_are_not_compared_with():
    short = {"goal_attack_success_rate": [0.1, 0.2]}
    records = change_records_with_labels(
        records_with_several_goals(),
        lambda each: each.model_copy(update={"metrics": each.metrics | short}),
        attack="none",
    )
    assert find_cell(build_summary_table(records), "fedavg", "worst_excess").text == "no attack-free baseline"


def test_an_f_that_is_the_true_number_of_attackers_is_shown_as_an_oracle():
    suite = {
        "tasks": ["digits-mlp"],
        "attacks": ["gaussian-noise"],
        "defenses": ["trimmed-mean"],
        "defense": {"trimmed-mean": {"f": "attackers"}},
        "seeds": [0],
        "overrides": {"rounds": 1, "participants": 10, "per_round": 5},
    }
    (planned,) = plan(parse(suite, "own", "own"))
    board = build_board("own", [run_cell(planned, "own"), robustness_record("gaussian-noise", "median")])
    for found in board.tables:
        rows = {row.label: row for row in found.rows}
        oracle, median = rows["trimmed-mean"], rows["median"]
        assert oracle.flags == ("trimmed-mean knows the true number of attackers of each round: an oracle",)
        assert not median.flags
    assert len(board.tables) == 2


def test_targeted_attacks_count_in_excess_of_the_attack_free_rate():
    clean = [robustness_record(seed=seed, success=0.45) for seed in range(2)]
    hit = [robustness_record("label-flipping", seed=seed, success=0.6) for seed in range(2)]
    assert find_cell(build_summary_table(clean + hit), "fedavg", "label-flipping").mean == pytest.approx(0.15)


def test_without_an_attack_free_baseline_there_is_no_excess():
    records = [
        *(robustness_record("label-flipping", seed=seed, success=0.6) for seed in range(2)),
        *(robustness_record("gaussian-noise", seed=seed, success=0.2) for seed in range(2)),
    ]
    place = find_cell(build_summary_table(records), "fedavg", "label-flipping")
    assert (place.mean, place.text) == (None, "no attack-free baseline")
    for goals in ((), (label_flipping_goal(target=5),)):
        clean = [robustness_record(seed=seed, success=0.3, goals=goals) for seed in range(2)]
        place = find_cell(build_summary_table([*clean, *records]), "fedavg", "label-flipping")
        assert (place.mean, place.text) == (None, "no attack-free baseline")
    assert find_cell(build_summary_table(WHOLE[1:]), "median", "clean_cost").text == "no attack-free baseline"


def records_by_deviation(figures, attack="gaussian-noise", defense="ffl"):
    return [
        robustness_record(
            *(attack, defense, seed, value),
            deviation={"strategy": number},
        )
        for number, values in figures.items()
        for seed, value in enumerate(values)
    ]


FIGURES = {1: (0.9, 0.2), 2: (0.3, 0.8)}


def test_the_worst_deviation_by_the_mean_counts():
    clean = [robustness_record(defense=name, seed=seed) for name in ("fedavg", "ffl") for seed in (0, 1)]
    records = [*clean, *records_by_deviation(FIGURES)]
    assert find_cell(build_summary_table(records), "ffl", "worst_accuracy").mean == pytest.approx((0.3 + 0.8) / 2)
    spoiled = [as_failed(each) if each is records[-1] else each for each in records]
    assert find_cell(build_summary_table(spoiled), "ffl", "worst_accuracy").text == "1 of 2 failed"


def test_a_suite_without_fedavg_compares_with_its_first_defense_whatever_the_strategies():
    clean = [robustness_record(defense=name, seed=seed, accuracy=0.9) for name in ("ffl", "median") for seed in (0, 1)]
    found = build_summary_table([*records_by_deviation(FIGURES), *clean])
    assert found.columns[-1].title == "no attack, against ffl %"
    assert find_cell(found, "median", "clean_cost").mean == pytest.approx(0)


def test_a_failed_seed_leaves_no_worst_case():
    found = build_summary_table(
        change_records_with_labels(WHOLE, as_failed, attack="gaussian-noise", defense="median", seed=0)
    )
    assert find_cell(found, "median", "worst_accuracy").text == "incomplete"
    assert find_cell(found, "fedavg", "worst_accuracy").mean is not None


def test_a_run_that_diverged_counts_with_an_accuracy_of_zero():
    changed = change_records_with_labels(WHOLE, as_diverged, attack="gaussian-noise", defense="median", seed=0)
    others = [
        each.metrics["accuracy"] for each in records_with_labels(WHOLE, attack="gaussian-noise", defense="median")
    ]
    shown = find_cell(build_summary_table(changed), "median", "worst_accuracy")
    assert shown.mean == pytest.approx(sum(others[1:]) / 3)
    assert shown.note == "gaussian-noise, 1 of 3 diverged"


def test_an_attack_that_was_not_run_leaves_no_worst_case():
    gone = [each for each in WHOLE if each not in records_with_labels(WHOLE, attack="gaussian-noise", defense="median")]
    assert find_cell(build_summary_table(gone), "median", "worst_accuracy").text == "incomplete"


def test_a_single_seed_says_so():
    assert (
        find_cell(build_summary_table([each for each in WHOLE if each.seed == 0]), "median", "clean_cost").note
        == "1 seed"
    )


def test_epsilon_is_the_largest_over_seeds_and_others_promise_none():
    promised = [
        robustness_record(defense="ldp", seed=seed, facts={"guarantee": {"epsilon": value}})
        for seed, value in enumerate((5.0, 7.0))
    ]
    found = build_summary_table([*(robustness_record(seed=seed) for seed in (0, 1)), *promised])
    assert find_cell(found, "ldp", "epsilon").mean == 7.0
    assert find_cell(found, "fedavg", "epsilon").text == "none"


@pytest.mark.parametrize("promise", [None, {"epsilon": None}])
def test_a_promise_that_is_none_is_no_promise(promise):
    found = build_summary_table([robustness_record(defense="ldp", facts={"guarantee": promise}), robustness_record()])
    assert "epsilon" not in [column.name for column in found.columns]


def test_honest_participants_who_are_excluded_are_counted():
    records = [
        robustness_record(attack, "ffl", facts={"honest_excluded": count})
        for attack, count in (("none", 1), ("gaussian-noise", 4))
    ]
    assert find_cell(build_summary_table(records), "ffl", "honest_excluded").mean == 2.5


def test_an_attack_weaker_than_noise_is_flagged():
    assert any("gaussian-noise takes less accuracy" in flag for flag in build_board("own", WHOLE).flags)
    others = [each for each in WHOLE if each.labels["attack"] != "noise-control"]
    strong = [*others, *records_of_three_seeds(attack="noise-control", accuracy=0.7)]
    assert not any("takes less accuracy" in flag for flag in build_board("own", strong).flags)
    assert any("noise-control was not run" in flag for flag in build_board("own", others).flags)


def with_f(f, accuracy, attack="min-max", seed=0, **fields):
    """A record of multi-krum with an f, under that name or as a point of a sweep over f."""
    swept = {"sweep": {"defense": {"parameter": "f", "value": f, "label": "multi-krum"}}} if fields else {}
    parameters = {"defense": {"f": f}}
    return robustness_record(
        attack, "multi-krum", accuracy=accuracy, seed=seed, parameters=parameters, **swept, **fields
    )


def misjudged(f, accuracy, attack="min-max", seed=0):
    return with_f(f, accuracy, attack, seed, labels={"defense": f"multi-krum (f = {f})"})


def misjudged_records():
    true = [with_f(4, 0.9, attack, seed) for attack in ("min-max", "mimic") for seed in (0, 1)]
    others = [misjudged(2, 0.5, seed=seed) for seed in (0, 1)] + [misjudged(8, 0.7, seed=seed) for seed in (0, 1)]
    return [*true, *others, *(robustness_record("min-max", accuracy=0.2, seed=seed) for seed in (0, 1))]


def test_a_misjudged_f_is_a_column_and_no_row():
    board = build_board("own", misjudged_records())
    table = find_table(board, "digits-mlp-summary")
    assert [row.label for row in table.rows] == ["multi-krum", "fedavg"]
    place = [column.name for column in table.columns].index("misjudged_f")
    cells = {row.label: row.cells[place] for row in table.rows}
    assert cells["multi-krum"].mean == 0.5
    assert cells["multi-krum"].note == "f = 2, min-max"
    assert cells["fedavg"].mean is None


def test_a_misjudged_f_is_compared_with_that_of_the_row_in_a_table_by_f():
    table = find_table(build_board("own", misjudged_records()), "sweep-digits-mlp-robustness-multi-krum-accuracy")
    assert [column.title for column in table.columns] == ["f = 2", "f = 4", "f = 8"]
    assert [[cell.mean for cell in row.cells] for row in table.rows] == [[0.5, 0.9, 0.7]]


def test_a_sweep_over_a_defense_that_is_no_row_by_itself_keeps_its_rows():
    records = [misjudged(f, 0.5, seed=seed) for f in (2, 8) for seed in (0, 1)]
    table = find_table(build_board("own", records), "digits-mlp-summary")
    assert [row.label for row in table.rows] == ["multi-krum (f = 2)", "multi-krum (f = 8)"]
    assert "misjudged_f" not in [column.name for column in table.columns]


def test_a_defense_that_is_undefined_under_an_attack_has_no_worst_case():
    changed = change_records_with_labels(WHOLE, as_undefined, attack="gaussian-noise", defense="median")
    found = find_cell(build_summary_table(changed), "median", "worst_accuracy")
    assert (found.mean, found.text) == (None, "undefined")


def test_a_mean_over_attacks_needs_all_of_them():
    records = [record for record in misjudged_records() if record.labels["defense"] != "multi-krum (f = 2)"]
    table = build_summary_table(records)
    assert find_cell(table, "multi-krum", "mean_accuracy").mean == pytest.approx(0.9)
    # FedAvg was not run under mimic.
    assert find_cell(table, "fedavg", "mean_accuracy").text == "incomplete"

"""Tolerated shares: the largest share of attackers up to which a defense keeps half of its accuracy."""

import pytest

from fflbench.measures.robustness_tables import setting_line
from fflbench.report.all_tables import build_board
from fflbench.report.answers import answer_sentences
from tests.report.synthetic_records import (
    as_diverged,
    as_failed,
    as_sweep_value,
    as_undefined,
    find_cell,
    find_table,
    robustness_record,
)

SHARES = (0.0, 0.1, 0.2, 0.3)
TABLE = "digits-mlp-tolerated-share"


def share_record(share, defense="fedavg", attack="gaussian-noise", **fields):
    return as_sweep_value(robustness_record(attack, defense, **fields), "attack", "share", share, attack)


def share_records(accuracies, **fields):
    return [share_record(share, accuracy=value, **fields) for share, value in zip(SHARES, accuracies, strict=True)]


def find_tolerated(records, defense="fedavg", attack="gaussian-noise"):
    return find_cell(find_table(build_board("own", records), TABLE), defense, attack)


@pytest.mark.parametrize(
    ("accuracies", "tolerated", "note"),
    [
        ((0.8, 0.7, 0.3, 0.2), 0.1, ""),
        # Exactly half is tolerated.
        ((0.8, 0.4, 0.39, 0.2), 0.1, ""),
        ((0.8, 0.3, 0.2, 0.1), 0.0, ""),
        # A share beyond one that is too large does not count.
        ((0.8, 0.3, 0.7, 0.7), 0.0, ""),
        ((0.8, 0.7, 0.6, 0.5), 0.3, "largest that was run"),
    ],
)
def test_the_tolerated_share_is_the_last_before_accuracy_falls_below_half(accuracies, tolerated, note):
    found = find_tolerated(share_records(accuracies))
    assert (found.mean, found.note) == (tolerated, note)


def test_the_mean_over_seeds_decides():
    records = [
        *share_records((0.8, 0.8, 0.1, 0.1), seed=0),
        *share_records((0.8, 0.2, 0.1, 0.1), seed=1),
    ]
    assert find_tolerated(records).mean == 0.1


def test_diverged_runs_count_with_an_accuracy_of_zero():
    records = share_records((0.8,) * 4)
    assert find_tolerated([*records[:2], as_diverged(records[2]), records[3]]).mean == 0.1


@pytest.mark.parametrize(("harm", "note"), [(as_undefined, "20%: undefined"), (as_failed, "20%: 1 of 1 failed")])
def test_a_share_without_a_result_ends_the_tolerated_ones_and_is_noted(harm, note):
    records = share_records((0.8,) * 4)
    found = find_tolerated([*records[:2], harm(records[2]), records[3]])
    assert (found.mean, found.note) == (0.1, note)


def test_without_a_result_without_attackers_nothing_is_known():
    records = share_records((0.8,) * 4)
    found = find_tolerated([as_failed(records[0]), *records[1:]])
    assert (found.mean, found.text) == (None, "1 of 1 failed")


def test_a_targeted_attack_counts_by_its_source_accuracy():
    sources = (0.8, 0.7, 0.2, 0.2)
    records = [
        share_record(share, attack="label-flipping", accuracy=0.9, metrics={"source_accuracy": source})
        for share, source in zip(SHARES, sources, strict=True)
    ]
    assert find_tolerated(records, attack="label-flipping").mean == 0.1


def test_the_table_replaces_worst_cases_where_every_attack_has_several_shares():
    made = build_board("own", share_records((0.8,) * 4))
    assert [each.name for each in made.tables if each.in_summary] == [TABLE]
    assert "digits-mlp-summary" not in [each.name for each in made.tables]


def test_worst_cases_leave_out_attacks_with_several_shares():
    records = [*share_records((0.8, 0.7, 0.1, 0.1)), robustness_record("noise-control", accuracy=0.6)]
    made = build_board("own", records)
    worst = find_cell(find_table(made, "digits-mlp-summary"), "fedavg", "worst_accuracy")
    assert worst.mean == pytest.approx(0.6)
    assert find_cell(find_table(made, TABLE), "fedavg", "gaussian-noise").mean == 0.1


def test_shares_without_zero_are_worst_cases():
    names = [each.name for each in build_board("own", share_records((0.8,) * 4)[1:]).tables]
    assert TABLE not in names
    assert "digits-mlp-summary" in names


def test_sentences_give_the_range_of_each_attack():
    records = [*share_records((0.8, 0.1, 0.1, 0.1)), *share_records((0.8, 0.8, 0.8, 0.1), defense="median")]
    assert answer_sentences(find_table(build_board("own", records), TABLE)) == [
        "Gaussian-noise: from 0% (fedavg) to 20% (median)."
    ]


@pytest.mark.parametrize(
    ("shares", "text"),
    [
        ((0.0, 0.1, 0.2, 0.3), "10% or 20% or 30% of them attackers"),
        ((0.0, 0.1, 0.2, 0.3, 0.45), "0% to 45% of them attackers"),
        ((0.05, 0.1, 0.2, 0.3), "5% to 30% of them attackers"),
    ],
)
def test_the_setting_names_few_shares_and_the_range_of_many(shares, text):
    line = setting_line([share_record(share) for share in shares])
    assert text in line
    assert "attacks: gaussian-noise." in line

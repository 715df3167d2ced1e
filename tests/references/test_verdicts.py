"""Verdicts on functions that are nearly right, and on right ones that round in their own way."""

from dataclasses import replace

import numpy as np
import pytest

from fflbench.comparison import Comparison, compare
from fflbench.errors import FflbenchError
from fflbench.function_calls import ForeignFunction, _arguments
from fflbench.references import REFERENCES
from fflbench.references.foolsgold import foolsgold_weights


def verdict(function, name, **settings):
    """Comparison of a function with the reference of a name."""
    return compare(ForeignFunction("theirs", function, _arguments(function)), REFERENCES[name], settings)


# Parameters


def foolsgold(rows, kappa=1.0, half=None):
    units = rows.astype(float) / np.maximum(np.linalg.norm(rows.astype(float), axis=1, keepdims=True), 1e-300)
    cosines = units @ units.T
    cosines[cosines > 1 - 1e-12] = 1
    np.fill_diagonal(cosines, 0)
    most = cosines.max(1)
    cosines *= np.minimum(1, most[:, None] / np.maximum(most[None], 1e-300))
    np.fill_diagonal(cosines, -1)
    alpha = np.clip(1 - cosines.max(1), 0, 1)
    alpha /= alpha.max()
    weights = np.clip(kappa * np.log(alpha / (1 - alpha)) + (kappa / 2 if half is None else half), 0, 1)
    return weights @ rows / weights.sum()


def foolsgold_without_brackets(rows, kappa=1.0):
    return foolsgold(rows, kappa, 0.5)


def bucketing(rows, s=2):
    shuffled = np.random.default_rng(0).permutation(rows)
    return np.stack([shuffled[start : start + s].mean(0) for start in range(0, len(rows), s)])


def bucketing_by_two(rows, s=2):
    return bucketing(rows, 2)


def bucketing_in_order(rows, s=2):
    return np.stack([rows[start : start + s].mean(0) for start in range(0, len(rows), s)])


def clipping(rows, bound=2.0):
    norms = np.linalg.norm(rows.astype(float), axis=1, keepdims=True)
    return rows * np.minimum(1, bound / np.maximum(norms, 1e-300))


def clipping_to_two(rows, bound=2.0):
    return clipping(rows, 2.0)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("foolsgold", foolsgold, foolsgold_without_brackets),
        ("bucketing", bucketing, bucketing_by_two),
        ("clipping", clipping, clipping_to_two),
    ],
)
def test_a_parameter_that_is_ignored_or_misused_is_found_out(name, right, wrong):
    assert verdict(right, name).agrees
    assert not verdict(wrong, name).agrees


def test_a_function_of_any_keywords_need_not_use_those_that_the_definition_leaves_optional():
    assert verdict(lambda rows, **_: clipping(rows, 2.0), "clipping").agrees
    assert not verdict(lambda rows, **_: clipping(rows, 2.0), "clipping", bound=3).agrees


def test_an_argument_that_can_only_be_given_by_position_is():
    def trimmed(rows, f, /):
        return np.sort(rows, 0)[f : len(rows) - f].mean(0)

    assert verdict(trimmed, "trimmed-mean").agrees


def test_a_definition_without_any_answer_is_no_agreement():
    assert not Comparison("theirs", REFERENCES["krum"]).agrees
    silent = replace(REFERENCES["clipping"], define=lambda rows, bound=2.0: [])
    function = ForeignFunction("theirs", clipping, _arguments(clipping))
    with pytest.raises(FflbenchError, match=r"clipping is not defined for bound = 3$"):
        compare(function, silent, {"bound": 3})


# Randomness and normalisation


def test_buckets_of_rows_in_their_order_differ_from_the_paper():
    found = verdict(bucketing_in_order, "bucketing")
    assert not found.agrees
    assert found.sentences == ["buckets: yours looks like rows are taken in their order, the paper permutes them first"]
    # One bucket of all rows needs no permutation.
    assert verdict(bucketing_in_order, "bucketing", s=20).agrees


def test_a_foolsgold_that_adds_weighted_rows_up_agrees_with_a_note():
    found = verdict(lambda rows: np.array(foolsgold_weights(rows.tolist())) @ rows, "foolsgold")
    assert found.agrees
    assert found.notes == [
        "weighted rows are added up, as in the authors' code; fflbench divides by the sum of the weights"
    ]
    assert verdict(foolsgold, "foolsgold").notes == []


# Rounding


@pytest.mark.parametrize(
    "mean",
    [
        lambda rows: np.ones(len(rows), np.float32) @ rows / len(rows),
        lambda rows: np.full(len(rows), 1 / len(rows), np.float32) @ rows,
        lambda rows: sum(rows[::-1]) / len(rows),
    ],
)
def test_a_mean_agrees_in_whatever_order_it_adds_rows(mean):
    assert verdict(mean, "fedavg").agrees


def test_a_row_that_is_zero_but_for_rounding_agrees():
    def mixing(rows, f):
        squares = ((rows[:, None].astype(float) - rows[None]) ** 2).sum(-1)
        np.fill_diagonal(squares, -1)
        nearest = squares.argsort(1, kind="stable")[:, : len(rows) - f]
        shares = np.zeros(squares.shape, np.float32)
        np.put_along_axis(shares, nearest, 1 / (len(rows) - f), 1)
        return shares @ rows

    assert verdict(mixing, "nnm").agrees


def test_no_square_is_suspected_where_a_rule_has_none():
    found = verdict(lambda rows: rows.mean(0) if np.abs(rows).max() < 1e20 else rows[0], "fedavg")
    assert found.sentences == ["on a row of 1e30 it gives another answer"]


def krum_of_inner_products(rows, f):
    squares = (rows**2).sum(1)
    distances = squares[:, None] + squares[None] - 2 * rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    return rows[np.sort(distances, 1)[:, : len(rows) - f - 2].sum(1).argmin()]


def test_a_krum_that_loses_digits_of_its_distances_is_told_why():
    found = verdict(krum_of_inner_products, "krum")
    assert found.agrees_unless_hostile
    assert (
        "on rows with a common offset of 10000 it gives another answer (distances or cosines computed from inner "
        "products in single precision lose digits when rows have a large common part)"
    ) in found.sentences
    assert len(found.sentences) == len(set(found.sentences))


def test_a_huge_row_hides_no_wrong_ones():
    def garbled(rows, bound):
        new = clipping(rows, bound)
        new[2:] = 7 if np.abs(rows).max() > 1e20 else new[2:]
        return new

    assert verdict(clipping, "clipping", bound=1e35).agrees
    assert not verdict(garbled, "clipping", bound=1e35).agrees

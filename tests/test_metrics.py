"""Declarations of metrics."""

import pytest

from fflbench.metrics import Metric, share

ACCURACY = share("accuracy", "accuracy", "Share that is right.", higher_is_better=True)
LOSS = Metric(name="loss", title="loss", meaning="Loss.", optional=True, low=0.0)
FLAG = Metric(name="diverged", title="diverged", meaning="Whether it is lost.", kind="flag")
LIST = share("by_class", "by class", "Of each class.", kind="list")


@pytest.mark.parametrize(
    ("metric", "value"),
    [(ACCURACY, 0), (ACCURACY, 1.0), (LOSS, None), (LOSS, 1e99), (FLAG, True), (LIST, [0.5, None])],
)
def test_a_figure_that_fits_its_declaration_has_no_problem(metric, value):
    assert metric.problem(value) == ""


@pytest.mark.parametrize(
    ("metric", "value", "problem"),
    [
        (ACCURACY, [0.5], "is no number"),
        (ACCURACY, None, "is missing"),
        (ACCURACY, 1.5, "is 1.5, and must be from 0 to 1"),
        (ACCURACY, "most", "is no number"),
        (ACCURACY, True, "is no number"),
        (LOSS, -1.0, "must be from 0"),
        (LOSS, 1e101, "must be from 0"),
        (LOSS, float("nan"), "is nan"),
        (FLAG, 1, "is not true or false"),
        (LIST, 0.5, "is no list"),
        (LIST, [0.5, 2.0], "is 2"),
        (LIST, ["a"], "is no number"),
    ],
)
def test_a_figure_that_does_not_fit_is_told_why(metric, value, problem):
    assert problem in metric.problem(value)


def test_drift_is_a_number_or_a_function_of_the_figure():
    assert ACCURACY.tolerance(0.5) == 0.0
    assert share("a", "a", "a", drift=0.01).tolerance(0.5) == 0.01
    assert share("a", "a", "a", drift=lambda value: value / 10).tolerance(0.5) == 0.05


def test_a_share_is_seen_as_a_percentage():
    assert ACCURACY.is_share
    assert (ACCURACY.unit, ACCURACY.factor) == ("%", 100)
    assert not LOSS.is_share

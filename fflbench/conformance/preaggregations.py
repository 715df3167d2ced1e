"""Checks of pre-aggregations."""

import numpy as np

from fflbench.conformance.check_registry import register_check, require, require_same_bits, require_unchanged
from fflbench.conformance.small_federation import SELECTED, permute_rows, random_server_view
from fflbench.federation.rule import Geometry, NoAnswerError, Preaggregation
from fflbench.federation.views import View
from fflbench.registry import Entry, Kind
from fflbench.types import Coefficients


def compute_coefficients(entry: Entry, view: View, rng: np.random.Generator | None = None) -> Coefficients:
    """Return the coefficients for a view that the function must not write to."""
    step: Preaggregation = entry.create()
    seen = view.read_only()
    geometry = Geometry(seen.rows[:, seen.columns.parameters])
    return step.coefficients(seen, geometry, rng or np.random.default_rng(0))


@register_check(Kind.PREAGGREGATION)
def check_coefficients_shape(entry: Entry) -> None:
    """Check that there are coefficients for each row, and at least one new row."""
    require(
        len(compute_coefficients(entry, random_server_view())),
        entry,
        "returned no rows for 8, and must return at least one",
    )


@register_check(Kind.PREAGGREGATION)
def check_single_row(entry: Entry) -> None:
    """Check that a single row gives coefficients, or a NoAnswerError."""
    try:
        given = compute_coefficients(entry, random_server_view(1))
    except NoAnswerError:
        return
    require(len(given), entry, "returned no rows for one, and must return at least one")


@register_check(Kind.PREAGGREGATION)
def check_determinism(entry: Entry) -> None:
    """Check that the same view and generator give the same bits."""
    require_same_bits(
        entry,
        lambda: compute_coefficients(entry, random_server_view()),
        lambda: compute_coefficients(entry, random_server_view(seed=1)),
    )


@register_check(Kind.PREAGGREGATION)
def check_inputs_unchanged(entry: Entry) -> None:
    """Check that rows, weights and participants stay as they are."""
    view = random_server_view()
    with require_unchanged(entry, rows=view.rows, weights=view.weights, participants=view.participants):
        compute_coefficients(entry, view)


@register_check(Kind.PREAGGREGATION, applies=lambda entry: not entry.regroups)
def check_permutation_equivariance(entry: Entry) -> None:
    """Check that rows in another order give the same new rows in that order, unless it draws random numbers."""
    view, rng = random_server_view(), np.random.default_rng(0)
    before = rng.bit_generator.state
    given = compute_coefficients(entry, view, rng)
    if rng.bit_generator.state != before:
        return
    for seed in range(3):
        places = np.random.default_rng(seed).permutation(SELECTED)
        other = compute_coefficients(entry, permute_rows(view, places))
        require(
            np.allclose(given[places][:, places], other, atol=1e-6),
            entry,
            "combined rows in another way when they came in another order, which must make no difference",
        )

"""Checks of rules."""

import itertools
import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fflbench.arrays.columns import Columns
from fflbench.arrays.kernels import weighted_mean
from fflbench.conformance.check_registry import (
    register_check,
    require,
    require_array,
    require_finite,
    require_same_bits,
    require_unchanged,
)
from fflbench.conformance.small_federation import (
    COLUMNS,
    MODEL,
    PARTICIPANTS,
    SELECTED,
    chain_with_plugin,
    hostile_updates,
    permute_rows,
    random_server_view,
    random_updates,
)
from fflbench.errors import NotFiniteError
from fflbench.federation.rule import NoAnswerError, Rule
from fflbench.federation.server import Server
from fflbench.federation.transport import Feedback, ServerSetting, Setting
from fflbench.federation.views import View
from fflbench.registry import Entry, Kind
from fflbench.types import Vector

ROUNDING = 1e-4
"""Largest relative difference that another order of additions may make."""


def begin_rule(entry: Entry, columns: Columns = COLUMNS) -> Rule:
    """Return a rule before its first round."""
    rule: Rule = entry.create()
    rule.begin(ServerSetting(PARTICIPANTS, SELECTED, columns, rows=SELECTED))
    return rule


def aggregate_read_only(rule: Rule, view: View, rng: np.random.Generator | None = None) -> tuple[Vector, Feedback]:
    """Return the aggregate of a view that the rule must not write to, and its feedback."""
    return Server((), rule).aggregate(view.read_only(), rng or np.random.default_rng(0))


@register_check(Kind.RULE)
def check_aggregate_shape(entry: Entry) -> None:
    """Check that the aggregate is a float32 vector with one number per column, buffers included."""
    for columns in (COLUMNS, Columns.of_length(5)):
        change, _ = aggregate_read_only(begin_rule(entry, columns), random_server_view(columns=columns))
        require_array(entry, "its aggregate", change, (columns.count,))
        require_finite(entry, "its aggregate", change)


@register_check(Kind.RULE)
def check_single_row_or_column(entry: Entry) -> None:
    """Check that a single row, or rows of a single column, give an aggregate or a NoAnswerError."""
    for n, columns in ((1, COLUMNS), (SELECTED, Columns.of_length(1))):
        try:
            change, _ = aggregate_read_only(begin_rule(entry, columns), random_server_view(n, columns))
        except NoAnswerError:
            continue
        require_array(entry, f"its aggregate of {n} x {columns.count} numbers", change, (columns.count,))


@register_check(Kind.RULE)
def check_round_without_rows(entry: Entry) -> None:
    """Check that a round without rows gives an aggregate, or a NoAnswerError."""
    try:
        change, _ = aggregate_read_only(begin_rule(entry), random_server_view(0))
    except NoAnswerError:
        return
    require_array(entry, "its aggregate of no rows", change, (COLUMNS.count,))


@register_check(Kind.RULE)
def check_determinism(entry: Entry) -> None:
    """Check that the same view, memory and generator give the same bits."""

    def aggregate(seed: int) -> object:
        rule = begin_rule(entry)
        return [
            aggregate_read_only(rule, random_server_view(seed=seed + each), np.random.default_rng(seed))
            for each in range(2)
        ]

    require_same_bits(entry, lambda: aggregate(0), lambda: aggregate(2))


@register_check(Kind.RULE)
def check_inputs_unchanged(entry: Entry) -> None:
    """Check that rows, weights, participants and the model stay as they are."""
    view = random_server_view()
    with require_unchanged(
        entry, rows=view.rows, weights=view.weights, participants=view.participants, model=view.model, sizes=view.sizes
    ):
        aggregate_read_only(begin_rule(entry), view)


@register_check(Kind.RULE)
def check_permutation_invariance(entry: Entry) -> None:
    """Check that the order of rows makes no difference, unless the rule draws random numbers."""
    view, rng = random_server_view(), np.random.default_rng(0)
    before = rng.bit_generator.state
    change, feedback = aggregate_read_only(begin_rule(entry), view, rng)
    if rng.bit_generator.state != before:
        return
    same = "when rows came in another order, which must make no difference"
    for seed in range(3):
        other, returned = aggregate_read_only(
            begin_rule(entry), permute_rows(view, np.random.default_rng(seed).permutation(SELECTED))
        )
        require(_vectors_close(change, other), entry, f"gave another aggregate {same}")
        require(_feedback_close(feedback, returned), entry, f"gave other feedback {same}")


def _vectors_close(one: Vector, other: Vector) -> bool:
    return bool(np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING * float(np.abs(one).max(initial=0))))


def _feedback_close(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    return one.keys() == other.keys() and all(np.isclose(one[who], other[who], rtol=ROUNDING) for who in one)


@register_check(Kind.RULE, applies=lambda entry: entry.linear)
def check_linearity(entry: Entry) -> None:
    """Check that a rule registered as linear gives the same aggregate for the weighted mean of the rows."""
    view = random_server_view()
    total = np.array([view.weights.sum()])
    mean = weighted_mean(view.rows, view.weights)[None]
    one = replace(view, rows=mean, weights=total, sizes=total, participants=None)
    whole, of_mean = aggregate_read_only(begin_rule(entry), view)[0], aggregate_read_only(begin_rule(entry), one)[0]
    require(
        _vectors_close(whole, of_mean),
        entry,
        "is registered as linear, and gave another aggregate for the weighted mean of the rows than for the rows",
    )


@register_check(Kind.RULE, applies=lambda entry: entry.coordinatewise)
def check_coordinates_alone(entry: Entry) -> None:
    """Check that a rule registered as coordinatewise keeps its aggregate when every column is permuted by itself."""
    view = replace(random_server_view(), weights=np.ones(SELECTED))
    whole, _ = aggregate_read_only(begin_rule(entry), view)
    for seed in range(3):
        permuted = np.random.default_rng(seed).permuted(view.rows, axis=0)
        other, _ = aggregate_read_only(begin_rule(entry), replace(view, rows=permuted))
        require(
            _vectors_close(whole, other),
            entry,
            "is registered as coordinatewise, and gave another aggregate when columns were permuted one by one",
        )


@register_check(Kind.RULE, applies=lambda entry: entry.sorts_columns)
def check_refusal_of_non_finite_updates(entry: Entry) -> None:
    """Check that a rule registered with sorts_columns refuses updates with NaN or infinity."""
    for value, place in itertools.product((np.nan, np.inf, -np.inf), (0, -1)):
        view = random_server_view()
        rows = view.rows.copy()
        rows[place, place] = value
        try:
            aggregate_read_only(begin_rule(entry), replace(view, rows=rows))
        except NotFiniteError:
            continue
        require(False, entry, f"is registered with sorts_columns, and gave an aggregate of updates with {value}")


@register_check(Kind.RULE, Kind.PREAGGREGATION, Kind.TRANSPORT, Kind.DEFENSE)
def check_hostile_updates(entry: Entry) -> None:
    """Check that hostile rows give a finite aggregate or a NoAnswerError, and so does the round after them."""
    for what, rows in hostile_updates(SELECTED).items():
        chain = chain_with_plugin(entry)
        chain.begin(Setting(PARTICIPANTS, SELECTED, np.arange(5, 5 + PARTICIPANTS), COLUMNS), 0)
        for number, sent in enumerate((rows, random_updates())):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                transcript = chain.transmit(number, MODEL, np.arange(SELECTED), sent.copy())
                if chain.rule.needs_root_update:
                    transcript.server = replace(transcript.server, root_update=random_updates(1, seed=1)[0])
                try:
                    change = chain.aggregate(transcript)
                except NoAnswerError:
                    continue
            when = f"when updates held {what}" if number == 0 else f"in the round after updates held {what}"
            require(
                np.isfinite(change).all(),
                entry,
                f"gave an aggregate with NaN or infinity {when}; a finite aggregate or a NoAnswerError would be right",
            )


@register_check(Kind.RULE)
def check_simulated_round(entry: Entry) -> None:
    """Check that a simulated round leaves the rule's memory as it is and gives the same aggregate."""
    rule = begin_rule(entry)
    aggregate_read_only(rule, random_server_view())
    twin = rule.simulation_copy()
    with require_unchanged(entry, **{"memory of the real rule": rule.memory}):
        simulated = _aggregate_or_empty(twin, random_server_view(seed=1))
    require(
        np.array_equal(simulated, _aggregate_or_empty(rule, random_server_view(seed=1))),
        entry,
        "gave another aggregate in a simulated round: what lasts from round to round must stand in its memory",
    )


def _aggregate_or_empty(rule: Rule, view: View) -> Vector:
    try:
        return aggregate_read_only(rule, view)[0]
    except NoAnswerError:
        return np.empty(0, np.float32)

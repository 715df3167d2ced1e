"""The server's half of a defense."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fflbench.arrays import kernels
from fflbench.arrays.conversion import REAL
from fflbench.errors import ParameterError
from fflbench.federation.rule import FunctionRule, Geometry, NoAnswerError, Preaggregation, Rule
from fflbench.federation.simulation import Gram
from fflbench.federation.transport import Feedback
from fflbench.federation.views import View, read_only
from fflbench.types import Coefficients, Matrix, Vector


class Server:
    """The server's half of a defense: pre-aggregations and the rule, which see only a view, memory and a generator."""

    def __init__(self, preaggregations: Sequence[Preaggregation], rule: Rule) -> None:
        self.preaggregations, self.rule = tuple(preaggregations), rule

    @property
    def parts(self) -> tuple[Preaggregation | Rule, ...]:
        """Return the pre-aggregations and the rule, in the order in which they run."""
        return *self.preaggregations, self.rule

    @property
    def sorts_columns(self) -> bool:
        """Whether all updates are sorted by columns, which finds values that are not finite."""
        return not self.preaggregations and isinstance(self.rule, FunctionRule) and self.rule.entry.sorts_columns

    def aggregate(self, view: View, rng: np.random.Generator, gram: Gram = kernels.gram) -> tuple[Vector, Feedback]:
        """Return the change of the global model and feedback to participants.

        Pre-aggregations overwrite the view's rows: a second matrix may not fit. `gram` returns the inner products of
        the rows, some of which may be known already.
        """
        geometry = Geometry(view.rows[:, view.columns.parameters], gram=gram)
        for step in self.preaggregations:
            if not len(view.rows):
                break
            try:
                coefficients = step.coefficients(_without_oracle(view, step), geometry, rng)
            except NoAnswerError as none:
                raise NoAnswerError(str(none), self._feedback_without_rows(view, rng)) from none
            view = _combine_rows(view, coefficients, regrouped=step.entry.regroups)
            geometry = geometry.combined(coefficients, view.rows[:, view.columns.parameters])
        rule, seen = self.rule, _without_oracle(view, self.rule)
        result = (
            rule.aggregate_with(seen, geometry, rng) if isinstance(rule, FunctionRule) else rule.aggregate(seen, rng)
        )
        change, feedback = _split_result(rule, result)
        return change if view.scale == 1 else change * np.float32(view.scale), feedback

    def _feedback_without_rows(self, view: View, rng: np.random.Generator) -> Feedback:
        """Call the rule on a round without rows, since it may penalise the senders of rows that were not finite."""
        per_row = {"rows": view.rows, "weights": view.weights, "participants": view.participants, "sizes": view.sizes}
        empty: dict[str, Any] = {name: values[:0] for name, values in per_row.items() if values is not None}
        try:
            seen = _without_oracle(replace(view, **empty), self.rule)
            return _split_result(self.rule, self.rule.aggregate(seen, rng))[1]
        except NoAnswerError as none:
            return none.feedback


def _without_oracle(view: View, part: Preaggregation | Rule) -> View:
    """Return the view without the true number of attackers for a part whose f is set otherwise."""
    return view if part.uses_oracle else replace(view, attackers=None)


def _split_result(rule: Rule, result: Any) -> tuple[Vector, Feedback]:
    """Return the change and the feedback in a rule's result, or raise an error where the result is neither."""
    change, feedback = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
    numbers = None if isinstance(change, tuple) else np.asarray(change)
    if numbers is None or numbers.dtype.kind not in REAL:
        name = str(rule.entry) if isinstance(rule, FunctionRule) else type(rule).__name__
        raise ParameterError(f"{name} must return the change of the model as numbers, or (change, feedback)")
    return numbers, feedback


def _combine_rows(view: View, coefficients: Coefficients, *, regrouped: bool) -> View:
    """Return the view with combined rows; the weight of a new row is the average of the rows it combines."""
    n = len(view.rows)
    shares = np.abs(coefficients)
    total = shares.sum(1, keepdims=True)
    # A row that combines nothing keeps its weight, or gets the average of all where their number changed.
    nothing = np.eye(n) if len(shares) == n else np.full_like(shares, 1 / n)
    shares = np.divide(shares, total, out=nothing, where=total > 0)
    return replace(
        view,
        rows=read_only(kernels.combine(_writable_view(view.rows), coefficients)),
        weights=shares @ view.weights,
        participants=None if regrouped else view.participants,
        sizes=None if regrouped else view.sizes,
    )


def _writable_view(rows: Matrix) -> Matrix:
    """Return a writable view of the rows, or a copy where their owner does not allow writing."""
    window = rows.view()
    try:
        window.flags.writeable = True
    except ValueError:
        window = rows.copy()
    return window

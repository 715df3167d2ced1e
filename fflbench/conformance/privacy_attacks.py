"""Checks of privacy attacks, each in the smallest cell of every measure that takes it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fflbench.conformance.check_registry import (
    comparable_bits,
    register_check,
    require,
    require_array,
    require_same_bits,
)
from fflbench.conformance.measures import require_declared_metrics
from fflbench.conformance.small_cells import SmallCell, measures_taking, small_cell
from fflbench.privacy.membership_attack import MembershipAttack, MembershipObserver
from fflbench.privacy.property_attack import PropertyAttack
from fflbench.privacy.reconstruction_attack import ObservedGradients, ReconstructedExamples, ReconstructionAttack
from fflbench.registry import Entry, Kind
from fflbench.types import Indices, Matrix, Vector


def small_cells_of_attack(entry: Entry) -> list[SmallCell]:
    """Return the smallest cell of every measure that takes the attack."""
    measures = list(measures_taking(entry))
    require(measures, entry, "is taken by no registered measure; inherit from a base class that one of them takes")
    return [small_cell(measure, entry) for measure in measures]


@register_check(Kind.PRIVACY_ATTACK)
def check_declared_metrics(entry: Entry) -> None:
    """Check that every measure that takes the attack gets the metrics that it declares."""
    for cell in small_cells_of_attack(entry):
        require_declared_metrics(entry, cell.entry, cell.run())


@register_check(Kind.PRIVACY_ATTACK)
def check_determinism(entry: Entry) -> None:
    """Check that the seed decides all results to the bit."""
    for cell in small_cells_of_attack(entry):

        def run(cell: SmallCell = cell) -> Any:
            outcome = cell.run()
            return outcome.metrics, outcome.history, outcome.arrays

        require_same_bits(entry, run)


def _inherits_from(base: type[Any]) -> Callable[[Entry], bool]:
    return lambda entry: issubclass(entry.target, base)


def _run_with_wrapped_method(
    entry: Entry, method: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Run the attack's cells with one of its methods wrapped."""
    for cell in small_cells_of_attack(entry):
        attack = cell.create_attack()
        # On the object, so that the measure calls it in place of the method.
        attack.__dict__[method] = wrap(getattr(attack, method))
        cell.run(attack)


@register_check(Kind.PRIVACY_ATTACK, applies=_inherits_from(ReconstructionAttack))
def check_reconstructions(entry: Entry) -> None:
    """Check that reconstructions are finite, one for each example, with labels of the task, from an unchanged model."""

    def wrap(reconstruct: Callable[..., ReconstructedExamples]) -> Callable[..., ReconstructedExamples]:
        def checked_method(observed: ObservedGradients) -> ReconstructedExamples:
            before = comparable_bits(observed.model.state_dict())
            guess = reconstruct(observed)
            same = comparable_bits(observed.model.state_dict()) == before
            require(same, entry, "changed the global model, which must stay as before")
            count = (observed.victim_count, observed.count)
            _require_tensor(entry, "inputs", guess.x, (*count, *observed.shape))
            _require_tensor(entry, "labels", guess.y, count)
            last = observed.classes - 1
            known = bool(((guess.y >= 0) & (guess.y <= last)).all())
            require(known, entry, f"returned labels that are no classes, which are numbered 0 to {last}")
            return guess

        return checked_method

    _run_with_wrapped_method(entry, "reconstruct", wrap)


def _require_tensor(entry: Entry, what: str, tensor: Any, shape: tuple[int, ...]) -> None:
    given = f"a tensor of shape {tuple(tensor.shape)}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
    right = isinstance(tensor, torch.Tensor) and tuple(tensor.shape) == shape
    require(right, entry, f"returned {what} as {given}, and must return a tensor of shape {shape}")
    require(bool(torch.isfinite(tensor).all()), entry, f"returned {what} with NaN or infinity")


@register_check(Kind.PRIVACY_ATTACK, applies=_inherits_from(MembershipAttack))
def check_membership_scores(entry: Entry) -> None:
    """Check that there is one finite score for each example."""

    def wrap(score: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def checked_method(observer: MembershipObserver, update: Vector, candidates: Indices) -> torch.Tensor:
            scores = score(observer, update, candidates)
            _require_tensor(entry, "scores", scores, (len(candidates),))
            return scores

        return checked_method

    _run_with_wrapped_method(entry, "score", wrap)


@register_check(Kind.PRIVACY_ATTACK, applies=_inherits_from(PropertyAttack))
def check_property_scores(entry: Entry) -> None:
    """Check that there is one finite score for each update."""

    def wrap(score: Callable[[Matrix], Any]) -> Callable[[Matrix], Any]:
        def checked_method(updates: Matrix) -> Any:
            scores = score(updates)
            require_array(entry, "scores", scores, (len(updates),), "float64")
            require(np.isfinite(scores).all(), entry, "returned scores with NaN or infinity")
            return scores

        return checked_method

    _run_with_wrapped_method(entry, "score", wrap)

"""Comparison of a function with a reference, on random, small, tied and hostile matrices."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.compared_matrices import ORDINARY, ComparedMatrix, matrices
from fflbench.errors import FflbenchError, did_you_mean_hint
from fflbench.function_calls import CallError, ComparedFunction, formula_value
from fflbench.plugin_parameters import format_value
from fflbench.references import REFERENCES, Reference, Variant, answers
from fflbench.references.reference import Answer, Definition, UndefinedError

LARGEST_F = 10
"""Largest f that a user can set, since references are slow."""


@dataclass
class ComparedAnswer:
    """Result of a function for one matrix."""

    matrix: ComparedMatrix
    parameters: dict[str, Any]
    """Parameters of the reference."""
    expected: list[Answer]
    given: npt.NDArray[np.float64] | None
    error: str = ""
    agrees: bool = False


@dataclass
class Comparison:
    """Result of a comparison with a reference."""

    label: str
    reference: Reference
    outcomes: list[ComparedAnswer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks that are no disagreement."""

    @property
    def agrees(self) -> bool:
        """Whether the function agrees with the reference on all matrices."""
        return bool(self.outcomes) and all(each.agrees for each in self.outcomes)

    @property
    def agrees_unless_hostile(self) -> bool:
        """Whether it agrees on all matrices but hostile ones."""
        return all(each.agrees for each in self.outcomes if each.matrix.sort in ORDINARY)

    @property
    def counts(self) -> str:
        """Number of matrices of each sort, and where they disagree the number that agree."""
        tried = Counter(each.matrix.sort for each in self.outcomes)
        agreed = Counter(each.matrix.sort for each in self.outcomes if each.agrees)
        texts = [f"{number if self.agrees else f'{agreed[sort]} of {number}'} {sort}" for sort, number in tried.items()]
        return f"{', '.join(texts[:-1])} and {texts[-1]} matrices"

    @cached_property
    def sentences(self) -> list[str]:
        """Return what differs, one sentence each."""
        return list(dict.fromkeys(_explain(self.outcomes, self.reference)))

    @property
    def example(self) -> list[str]:
        """Lines that show the smallest matrix on which the answers differ; empty where a known variant explains it."""
        wrong = [each for each in self.outcomes if not each.agrees and each.given is not None]
        if not wrong or _fitting_variants(self.outcomes, self.reference):
            return []
        return list(_show(min(wrong, key=lambda each: (each.matrix.sort not in ORDINARY, each.matrix.rows.size))))


def find_reference(name: str) -> Reference:
    """Return the reference of a name, or raise an error with the nearest one."""
    if name in REFERENCES:
        return REFERENCES[name]
    raise FflbenchError(
        f'there is no reference of "{name}"{did_you_mean_hint(name, REFERENCES)} (there are: {", ".join(REFERENCES)})'
    )


def compare(
    function: ComparedFunction,
    reference: Reference,
    settings: Mapping[str, Any] | None = None,
    advance: Callable[[int], None] = lambda amount: None,
) -> Comparison:
    """Compare a function with a reference; settings are further arguments, as numbers or formulas of f and n."""
    chosen = _Parameters(function, reference, settings or {})
    comparison = Comparison(function.label, reference)
    for matrix in matrices(reference, chosen.fixed_f):
        for_function, for_reference = chosen.of(matrix)
        expected = chosen.expected(matrix, for_reference)
        # Where the definition has no answer, or leaves nearly everything open, there is nothing to compare with.
        if expected:
            outcome = ComparedAnswer(matrix, for_reference, expected, None)
            _call(function, outcome, for_function, reference)
            comparison.outcomes.append(outcome)
        advance(1)
    if not comparison.outcomes:
        raise FflbenchError(f"{reference.name} is not defined for {chosen.own_text or 'any of the matrices'}")
    comparison.notes = [*_judge_together(comparison.outcomes, reference), *_notes(function, comparison, chosen)]
    return comparison


def _call(
    function: ComparedFunction, outcome: ComparedAnswer, arguments: Mapping[str, Any], reference: Reference
) -> None:
    try:
        outcome.given = function.call(outcome.matrix.rows, arguments, np.shape(outcome.expected[0]))
    except CallError as error:
        outcome.error = str(error)
        return
    outcome.agrees = _is_among(outcome.given, outcome.expected, outcome.matrix, reference)


def _is_among(
    given: npt.NDArray[np.float64], expected: list[Answer], matrix: ComparedMatrix, reference: Reference
) -> bool:
    right: npt.NDArray[np.float64] = np.asarray(expected, np.float64)
    # Each row by its own size, since a huge one would hide wrong others.
    allowed = reference.tolerance * np.abs(right).max(-1, keepdims=True) + matrix.rounding
    with np.errstate(all="ignore"):
        # NaN is near nothing.
        near = np.abs(right - given) <= allowed
    return bool(near.reshape(len(right), -1).all(1).any())


def _judge_together(outcomes: list[ComparedAnswer], reference: Reference) -> Iterator[str]:
    """Correct verdicts that only all answers together decide, and yield notes on them."""
    if reference.random and any(_fits(variant, outcomes, reference) for variant in reference.variants):
        for each in outcomes:
            each.agrees &= all(answer == each.expected[0] for answer in each.expected)
    accepted = (each for each in reference.accepted if _fits(each, outcomes, reference))
    if (variant := next(accepted, None)) and not all(each.agrees for each in outcomes):
        for each in outcomes:
            each.expected = answers(variant.define, each.matrix.rows.tolist(), each.parameters) or each.expected
            each.agrees = each.given is not None and _is_among(each.given, each.expected, each.matrix, reference)
        yield from variant.differences


def _notes(function: ComparedFunction, comparison: Comparison, chosen: "_Parameters") -> Iterator[str]:
    reference = comparison.reference
    first = next((each for each in comparison.outcomes if each.given is not None), None)
    if first is not None and not reference.random:
        again = ComparedAnswer(first.matrix, first.parameters, first.expected, None)
        _call(function, again, chosen.of(first.matrix)[0], reference)
        assert first.given is not None
        if again.given is None or not np.array_equal(again.given, first.given, equal_nan=True):
            yield "called again with the same matrix it gives another answer: it draws random numbers or keeps a memory"
    if function.changes_rows:
        yield "it changes the matrix that it is given"


class _Parameters:
    """Parameters for the function and for the reference."""

    def __init__(self, function: ComparedFunction, reference: Reference, settings: Mapping[str, Any]) -> None:
        self.arguments, self.reference, self.settings = function.arguments, reference, settings
        self.known = [name for name in list(signature(reference.define).parameters)[1:] if name != "order"]
        self.fixed_f: int | None = None
        if "f" in self.known and "f" in settings:
            self.fixed_f = settings["f"]
            if type(self.fixed_f) is not int or not 0 <= self.fixed_f <= LARGEST_F:
                raise FflbenchError(f"--set f={self.fixed_f}: f must be a whole number from 0 to {LARGEST_F}")
        self.own_text = ", ".join(
            f"{name} = {format_value(value)}" for name, value in settings.items() if name in self.known
        )
        self._check(function.label)

    def _check(self, label: str) -> None:
        arguments = self.arguments
        # Registered rules may all be given weights.
        names = [name for name in arguments.names if name != "weights" or name in self.known]
        taken = f"it takes {', '.join(names)}" if names else "it takes none"
        for name in self.settings:
            if name not in self.known and name not in arguments.names and not arguments.any_name:
                raise FflbenchError(f'{label} has no argument "{name}"{did_you_mean_hint(name, names)} ({taken})')
        by_f = any(
            isinstance(value, str) and value != formula_value(value, {"f": 1, "n": 9})
            for value in self.settings.values()
        )
        if "f" in self.known and not (self.fixed_f is not None or arguments.name_of("f") or by_f):
            naming = f"name it, as in --set {names[0]}=f, or " if names else ""
            raise FflbenchError(
                f"{label} has no argument that is known to be f, the number of attackers ({taken}): {naming}say which "
                "f it uses, as in --set f=2"
            )
        filled = {arguments.name_of(name) for name in ("f", *self.reference.parameters)} & set(arguments.names)
        for name in arguments.required:
            if name not in filled and name not in self.settings:
                raise FflbenchError(f"{label} needs {name}: set it, as in --set {name}=1 or --set {name}=n-f")

    def of(self, matrix: ComparedMatrix) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the function's arguments and the reference's parameters for a matrix."""
        n, f = len(matrix.rows), matrix.f
        standard: dict[str, Any] = {"f": f} if "f" in self.known else {}
        standard |= {name: of(n) for name, of in self.reference.parameters.items() if self.arguments.declare(name)}
        own = {name: formula_value(value, {"f": f, "n": n}) for name, value in self.settings.items()}
        for_function, for_reference = {}, {}
        for name, value in (standard | {name: value for name, value in own.items() if name in self.known}).items():
            theirs = self.arguments.name_of(name)
            if theirs is not None:
                for_function[theirs] = value
            if theirs is not None or name in own or name == "f":
                for_reference[name] = value
        others = {name: value for name, value in own.items() if name not in self.known}
        return for_function | others, for_reference

    def expected(self, matrix: ComparedMatrix, given: Mapping[str, Any]) -> list[Answer] | None:
        """Return the reference's answers; a parameter of the user may be one that it cannot be computed with."""
        try:
            return answers(self.reference.define, matrix.rows.tolist(), given)
        except Exception as error:
            if not self.own_text:
                raise
            why = f": {error}" if isinstance(error, UndefinedError) else f" and {len(matrix.rows)} rows"
            raise FflbenchError(f"{self.reference.name} is not defined for {self.own_text}{why}") from error


# Explanations


def _explain(outcomes: list[ComparedAnswer], reference: Reference) -> Iterator[str]:
    """Yield what differs: known variants that fit, errors, and single hostile matrices."""
    wrong = [each for each in outcomes if not each.agrees]
    raised = [each for each in wrong if each.given is None]
    if len(raised) == len(outcomes):
        yield f"no call succeeded: {raised[0].error}"
        return
    fitting = _fitting_variants(outcomes, reference)
    if len(fitting) == 1:
        yield from fitting[0].differences
    elif fitting:
        yield "one of: " + "; or ".join(" and ".join(each.differences) for each in fitting)
    unknown = not fitting and any(each.given is not None and each.matrix.sort in ORDINARY for each in wrong)
    if unknown:
        yield "no known variant gives these answers"
    yield from (f"on {each.matrix.name}, f = {each.matrix.f}, {each.error}" for each in raised[:3])
    if unknown:
        return
    for each in wrong:
        explained = each.given is None or (fitting and _gives(fitting[0].define, each, reference))
        if each.matrix.sort == "hostile" and not explained:
            finite = each.given is not None and np.isfinite(each.given).all()
            yield f"on {each.matrix.name} it gives {'another answer' if finite else 'NaN or infinity'}" + (
                f" ({each.matrix.hint})" if each.matrix.hint else ""
            )


def _fitting_variants(outcomes: list[ComparedAnswer], reference: Reference) -> list[Variant]:
    """Return the variants, with as few differences as possible, that give all answers for ordinary matrices."""
    answered = [each for each in outcomes if each.given is not None and each.matrix.sort in ORDINARY]
    # The wrong ones first: they rule most variants out.
    answered.sort(key=lambda each: each.agrees)
    if not answered or answered[0].agrees:
        return []
    fitting = [variant for variant in reference.variants if _fits(variant, answered, reference)]
    fewest = min((len(each.differences) for each in fitting), default=0)
    return [each for each in fitting if len(each.differences) == fewest]


def _fits(variant: Variant, outcomes: list[ComparedAnswer], reference: Reference) -> bool:
    """Return whether a variant gives all answers for ordinary matrices."""
    answered = [each for each in outcomes if each.given is not None and each.matrix.sort in ORDINARY]
    return bool(answered) and all(_gives(variant.define, each, reference) for each in answered)


def _gives(define: Definition, outcome: ComparedAnswer, reference: Reference) -> bool:
    assert outcome.given is not None
    expected = answers(define, outcome.matrix.rows.tolist(), outcome.parameters)
    # A definition that leaves nearly everything open rules nothing out.
    return expected is None or (
        any(np.shape(each) == outcome.given.shape for each in expected)
        and _is_among(outcome.given, expected, outcome.matrix, reference)
    )


def _show(outcome: ComparedAnswer) -> Iterator[str]:
    """Yield lines with a matrix, the expected answers and the given one."""
    settings = ", ".join(
        f"{name} = {value}" for name, value in outcome.parameters.items() if not isinstance(value, list)
    )
    yield f"smallest matrix on which they differ ({outcome.matrix.name}{f', {settings}' if settings else ''}):"
    for row in outcome.matrix.rows:
        yield f"  {_numbers(row)}"
    yield f"right: {_expected(outcome)}"
    yield f"yours: {_numbers(outcome.given)}"


def _expected(outcome: ComparedAnswer) -> str:
    shown = list(dict.fromkeys(map(_numbers, outcome.expected)))
    return " or ".join(shown[:3]) + (f" or one of {len(shown) - 3} others" if len(shown) > 3 else "")


def _numbers(values: Any) -> str:
    array = np.asarray(values)
    if array.ndim > 1:
        return f"[{', '.join(map(_numbers, array))}]"
    return f"[{', '.join(f'{value:.6g}' for value in array)}]"

"""Contract of references: slow definitions of rules and pre-aggregations, with known variants of other libraries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

Rows: TypeAlias = Sequence[Sequence[float]]
"""Updates, one sequence of numbers per participant."""

Answer: TypeAlias = list[Any]
"""Aggregate of a rule, as a list of numbers, or rows of a pre-aggregation, as lists of them."""

Definition: TypeAlias = Callable[..., Iterable[Answer]]
"""Function of rows and parameters that yields every answer that the definition allows: several where it leaves ties or
random choices open, none where it has no answer."""

MOST_ANSWERS = 1000
"""Number of answers above which a matrix is not compared on."""


@dataclass(frozen=True)
class Variant:
    """Another definition that implementations are known to compute under the same name."""

    differences: tuple[str, ...]
    """Differences from the definition, as in "neighbours: yours looks like n - f - 1, the paper's is n - f - 2"."""
    define: Definition


@dataclass(frozen=True)
class Reference:
    """Definition of a rule or pre-aggregation, with its known variants."""

    name: str
    citation: str
    define: Definition
    variants: tuple[Variant, ...] = ()
    largest_f: Callable[[int], int] | None = None
    """Largest f to compare with for n rows; None if the definition has no f."""
    parameters: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    """Further parameters by name, as functions of n, for implementations that take them."""
    fewest_rows: int = 2
    most_rows: int = 14
    random: bool = False
    """Whether it draws random numbers, so that the same rows may give another answer."""
    tolerance: float = 1e-5
    """Largest difference, relative to the largest number of the answer, that single precision may cause."""


def answers(define: Definition, rows: Rows, given: Mapping[str, Any]) -> list[Answer] | None:
    """Return all answers of a definition, or None if they are too many to compare with."""
    found = list(islice(define(rows, **given), MOST_ANSWERS + 1))
    return found if len(found) <= MOST_ANSWERS else None

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


class UndefinedError(Exception):
    """Parameter out of its range; the text says which values would be right."""


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
    """Other definitions; those of a random one lack its randomness, and are wrong only where all answers are theirs."""
    largest_f: Callable[[int], int] | None = None
    """Largest f to compare with for n rows; None if the definition has no f."""
    accepted: tuple[Variant, ...] = ()
    """Other definitions that are right too; their differences are noted."""
    parameters: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    """Further parameters by name, as functions of n, for implementations that take them; they vary, as constants would
    not show how they are used."""
    fewest_rows: int = 2
    most_rows: int = 14
    random: bool = False
    """Whether it draws random numbers, so that the same rows may give another answer."""
    linear: bool = False
    """Whether it averages rows of any size, so that huge ones of opposite signs leave only their rounding errors."""
    squares: bool = True
    """Whether it computes distances, norms or cosines, whose squares overflow or lose digits in single precision."""
    tolerance: float = 1e-5
    """Largest difference, relative to the largest number of the aggregate or row, that single precision may cause."""


def answers(define: Definition, rows: Rows, given: Mapping[str, Any]) -> list[Answer] | None:
    """Return all answers of a definition, or None if they are too many to compare with."""
    found = list(islice(define(rows, **given), MOST_ANSWERS + 1))
    return found if len(found) <= MOST_ANSWERS else None

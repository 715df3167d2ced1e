"""Matrices to compare functions on: random, small, tied and hostile ones, always the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.references import Reference
from fflbench.types import Matrix

HUGE = np.float32(1e30)
"""Value whose square is infinite in single precision."""

ORDINARY = ("random", "small", "tied")
"""Sorts of matrices on which rounding decides nothing."""


@dataclass(frozen=True)
class ComparedMatrix:
    """Matrix to compare on, with the f to use."""

    sort: str
    name: str
    rows: Matrix
    f: int
    hint: str = ""
    """Likely reason where a function differs on this matrix alone."""

    @property
    def rounding(self) -> npt.NDArray[np.float64]:
        """Largest error of a mean in single precision, for each column; 0 where a huge row would hide other errors."""
        share = len(self.rows) * float(np.finfo(np.float32).eps) if self.sort in ORDINARY else 0.0
        largest: npt.NDArray[np.float64] = np.abs(self.rows).max(0).astype(np.float64)
        return share * largest


def matrices(reference: Reference, fixed_f: int | None = None) -> Iterator[ComparedMatrix]:
    """Yield the matrices that a function is compared on."""
    largest_f = reference.largest_f or (lambda n: 0)
    fewest = next(n for n in range(reference.fewest_rows, 99) if largest_f(n) >= (fixed_f or 0))

    def n_and_f(number: int, most: int) -> tuple[int, int]:
        n = min(fewest + number % most, max(fewest, reference.most_rows))
        f = 1 + number // 2 % largest_f(n) if largest_f(n) else 0
        return n, f if fixed_f is None else fixed_f

    for number in range(40):
        rng = np.random.default_rng(number)
        (n, f), d = n_and_f(number, 10), 2 + 3 * number % 17
        centre = rng.choice([0.0, 1.0, 5.0]) * rng.normal(size=d)
        # Rows of unlike spread on even numbers, of like spread on odd ones: some variants show on one sort alone.
        spread = rng.choice([0.1, 1.0, 3.0], size=(n, 1)) if number % 2 == 0 else 1.0
        rows = centre + rng.normal(size=(n, d)) * spread
        yield ComparedMatrix("random", f"{n} random rows", rows.astype(np.float32), f)
    for sort, largest in (("small", 9), ("tied", 1)):
        for number in range(20):
            (n, f), d = n_and_f(number, 5), 1 + number % 2 if sort == "small" else 3
            rows = np.random.default_rng(number).integers(-largest, largest + 1, size=(n, d))
            yield ComparedMatrix(sort, f"{n} rows of whole numbers", rows.astype(np.float32), f)
    n, f = n_and_f(2, 5)
    yield from _hostile_matrices(reference, n, f)
    if reference.largest_f and fixed_f is None:
        yield ComparedMatrix("hostile", "random rows with f = 0", _normal(1, n), 0, "a slice such as [:-f]?")


def _normal(seed: int, n: int) -> Matrix:
    return np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)


def _hostile_matrices(reference: Reference, n: int, f: int) -> Iterator[ComparedMatrix]:
    rows = _normal(0, n)
    overflow = "its square is infinite in single precision" if reference.squares else ""
    digits = (
        "distances or cosines computed from inner products in single precision lose digits when rows have a large "
        "common part"
        if reference.squares
        else ""
    )

    def with_first(value: Any, count: int = 1) -> Matrix:
        return np.vstack([np.full((count, 5), value, np.float32), rows[count:]])

    # A mean of huge rows of opposite signs is whatever rounding leaves of them.
    opposite = [] if reference.linear else [np.vstack([[[HUGE] * 5], [[-HUGE] * 5], rows[2:]])]
    for name, matrix, hint in (
        ("rows that are all equal", np.tile(rows[0], (n, 1)), "a division by zero?"),
        ("rows of zeros", np.zeros_like(rows), "a division by zero?"),
        ("one row of zeros", with_first(0), "a division by zero?"),
        ("two equal rows far away", with_first(50, 2), ""),
        ("a row of 1e18", with_first(1e18), ""),
        ("a row of 1e30", with_first(HUGE), overflow),
        *(("two rows of 1e30 and -1e30", each, overflow) for each in opposite),
        ("rows as small as 1e-12", rows * np.float32(1e-12), "underflow of powers, or a constant added to a divisor?"),
        *(("rows with a common offset of 10000", _normal(seed, n) + np.float32(1e4), digits) for seed in range(3)),
        ("rows of a single column", rows[:, :1].copy(), ""),
    ):
        yield ComparedMatrix("hostile", name, matrix.astype(np.float32), f, hint)

"""Simulation of a round by attackers: the aggregate that the server would compute if they sent given rows."""

import functools
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fflbench.arrays import kernels
from fflbench.federation.views import read_only
from fflbench.randomness import stream
from fflbench.types import Indices, Matrix, Vector

LARGE = 1 << 22
"""Values from which on inner products of unchanged rows are kept: those of smaller matrices take no time."""

Gram = Callable[[Matrix], npt.NDArray[np.float64]]
"""Function that returns all inner products of rows."""


class SimulateAll(Protocol):
    """Function that computes the aggregate of a matrix with one row per selected participant, on a copy of the defense.

    It leaves the matrix as it is. `gram` returns the inner products of its columns of parameters; `all_finite` is set
    where no row is to be dropped.
    """

    def __call__(self, updates: Matrix, *, gram: Gram, all_finite: bool) -> Vector | None:
        """Return the change of the model, or None where the server would keep it."""


class RoundSimulation:
    """Aggregates of one round for rows that attackers try, with the number of calls and their seconds.

    Between two calls only the rows of the attackers who try change: the others are searched for values that are not
    finite once, and for large matrices their inner products are computed once. Where all attackers try together, their
    rows are tried in `updates` itself, which has one row for each of the selected and would take long to copy.
    """

    def __init__(
        self,
        simulate: SimulateAll,
        selected: Indices,
        hostile: npt.NDArray[np.bool_],
        honest: Matrix,
        updates: Matrix,
    ) -> None:
        self._simulate, self._selected, self._hostile = simulate, selected, hostile
        self._honest, self._updates = honest, updates
        self._sent: Matrix = np.empty((0, 0), np.float32)
        self._trying: Indices = np.empty(0, np.int64)
        self._asked: tuple[Indices | None, Indices] = None, self._trying
        self._others_finite = False
        self._products: npt.NDArray[np.float64] | None = None
        self.calls = 0
        """Number of calls."""
        self.seconds = 0.0
        """Seconds of all calls."""

    def __call__(self, participants: Indices, rows: Matrix, estimate: Matrix | None) -> Vector | None:
        """Return the aggregate if these attackers sent these rows, by their estimate of all others if given."""
        start = time.perf_counter()
        try:
            trying = self._places(participants)
            if estimate is not None or not np.array_equal(trying, self._trying):
                self._sent, self._products = self._others(trying, rows, estimate), None
                self._others_finite = bool(np.delete(kernels.finite_rows(self._sent), trying).all())
                # The next call may have another estimate, or, for want of honest rows, another mean of `rows`.
                fixed = estimate is None and (len(self._honest) or len(trying) == self._hostile.sum())
                self._trying = trying if fixed else np.empty(0, np.int64)
            self._sent[trying] = rows
            # As they are sent: in single precision, and one of several equal rows.
            different = self._sent[trying[:1] if rows.strides[0] == 0 else trying]
            all_finite = self._others_finite and bool(kernels.finite_rows(different).all())
            change = self._simulate(read_only(self._sent), gram=self._gram, all_finite=all_finite)
            # A rule may return one of the rows, which the next call replaces.
            return change if change is None or not np.may_share_memory(change, self._sent) else change.copy()
        finally:
            self.calls += 1
            self.seconds += time.perf_counter() - start

    def _places(self, participants: Indices) -> Indices:
        """Return the places of participants among the selected, for the same ones again without a search."""
        if participants is not self._asked[0]:
            self._asked = participants, np.flatnonzero(np.isin(self._selected, participants))
        return self._asked[1]

    def _others(self, trying: Indices, rows: Matrix, estimate: Matrix | None) -> Matrix:
        """Return a matrix of all selected participants' rows, in which those of the attackers who try are missing."""
        if estimate is None and len(trying) == self._hostile.sum():
            return self._updates
        sent = np.empty((len(self._selected), rows.shape[1]), np.float32)
        if estimate is not None:
            sent[np.setdiff1d(np.arange(len(sent)), trying)] = estimate
            return sent
        sent[~self._hostile] = self._honest
        # Attackers who do not know each other's updates assume that the others send the mean.
        sent[self._hostile] = (self._honest if len(self._honest) else rows).mean(0)
        return sent

    def _gram(self, rows: Matrix) -> npt.NDArray[np.float64]:
        """Return all inner products of the rows that are sent; only those of changed ones are computed anew."""
        if len(rows) != len(self._sent) or rows.size < LARGE or not len(self._trying):
            return kernels.gram(rows)
        if self._products is None:
            self._products = kernels.gram(rows)
        else:
            changed = products_with_all(rows, self._trying)
            self._products[self._trying], self._products[:, self._trying] = changed, changed.T
        return self._products.copy()


def products_with_all(rows: Matrix, some: Indices) -> npt.NDArray[np.float64]:
    """Return the inner products of some rows with all rows, in double precision."""
    n, d = rows.shape
    width, products = max(1, kernels.BLOCK // 4 // n), np.zeros((len(some), n))
    for start in range(0, d, width):
        block = rows[:, start : start + width].astype(np.float64)
        products += block[some] @ block.T
    return products


@functools.lru_cache(maxsize=1)
def simulation_seed(seed: int, round: int) -> int:
    """Return the seed of a defense's copies in a round, the same for all of them."""
    return int(stream(seed, "simulation", round).integers(2**63))

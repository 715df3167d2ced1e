"""Tests that decide from a server's view which of two candidate updates a participant sent.

There is one for each meaning of a row (`Transport.rows`). All are likelihood-ratio tests up to a positive factor, under
the model that each of them states; scores above 0 speak for the first candidate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fflbench.federation import View
from fflbench.federation.views import Rows
from fflbench.types import Matrix, Vector

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CandidatePair:
    """Two updates, one of which a participant sent: both as the protocol carries them, without its randomness."""

    participant: int
    size: int
    """Number of examples that it declares."""
    first: Vector
    second: Vector

    @property
    def difference(self) -> Doubles:
        """First minus second."""
        return self.first.astype(np.float64) - self.second

    @property
    def middle(self) -> Doubles:
        """Mean of the two."""
        return (self.first.astype(np.float64) + self.second) / 2


@dataclass(frozen=True)
class OtherUpdates:
    """A server's knowledge of the other participants' updates: their sum, or updates like theirs."""

    total: Doubles | None = None
    """Sum of the others' updates, each times its sender's number of examples; None if the server does not know it."""
    alike: Matrix | None = None
    """Updates that the server trained itself, on examples like the participants'."""

    def expected_total(self, size: float) -> Doubles:
        """Return the expected sum of others who hold so many examples."""
        if self.total is not None:
            return self.total
        return size * self._mean

    def whiten(self, difference: Doubles) -> Doubles:
        """Return a difference times the inverse covariance of the others' updates, up to a factor.

        The covariance is estimated by that of the updates like theirs, shrunk to a multiple of the identity of the same
        trace, half and half, since they are far fewer than coordinates (Ledoit and Wolf, J. Multivariate Analysis 2004,
        who also estimate the best share).
        """
        if self.total is not None or not self._correction.any():
            return difference
        whitened: Doubles = difference - self._spread.T @ (self._correction @ (self._spread @ difference))
        return whitened

    @cached_property
    def _mean(self) -> Doubles:
        assert self.alike is not None
        mean: Doubles = self.alike.mean(0, dtype=np.float64)
        return mean

    @cached_property
    def _spread(self) -> Doubles:
        assert self.alike is not None
        spread: Doubles = self.alike - self._mean
        return spread

    @cached_property
    def _correction(self) -> Doubles:
        """Inverse of (a I + S S'), with S the spread and a the average variance of a coordinate times their number.

        By Woodbury's formula, the inverse of I + S'S / a is I - S' (a I + S S')^-1 S.
        """
        inner = self._spread @ self._spread.T
        average = inner.trace() / self._spread.shape[1]
        correction: Doubles = np.linalg.inv(np.eye(len(inner)) * average + inner) if average else np.zeros_like(inner)
        return correction


Test = Callable[[View, CandidatePair, OtherUpdates], float]


def score_own_row(view: View, pair: CandidatePair, others: OtherUpdates) -> float:
    """Score the participant's own row: a candidate, with independent normal noise of equal variance, or with none."""
    assert view.participants is not None
    places = np.flatnonzero(view.participants == pair.participant)
    return float((view.rows[places[0]] - pair.middle) @ pair.difference) if len(places) else 0.0


def score_nearest_row(view: View, pair: CandidatePair, others: OtherUpdates) -> float:
    """Score rows without senders: the row that is nearest to a candidate is taken for the participant's."""
    if not len(view.rows):
        return 0.0
    first, second = (
        min(float(((row - candidate.astype(np.float64)) ** 2).sum()) for row in view.rows)
        for candidate in (pair.first, pair.second)
    )
    return second - first


def score_values(view: View, pair: CandidatePair, others: OtherUpdates) -> float:
    """Score rows that mix several participants' coordinates: the values of what was sent occur in their columns.

    In every column the candidate that is nearer to any of its values gets a point; one that occurs is at distance 0.
    """
    if not len(view.rows):
        return 0.0
    nearest = [np.full(len(candidate), np.inf, np.float32) for candidate in (pair.first, pair.second)]
    for row in view.rows:
        for candidate, distance in zip((pair.first, pair.second), nearest, strict=True):
            np.minimum(distance, np.abs(row - candidate), out=distance)
    first, second = nearest
    return float(np.count_nonzero(first < second)) - float(np.count_nonzero(second < first))


def score_sum(view: View, pair: CandidatePair, others: OtherUpdates) -> float:
    """Score a mean by examples: without the participant's part, the sum of the others' updates is left.

    That is either known, or taken for normal with the mean and covariance of updates like theirs.
    """
    if not len(view.rows):
        return 0.0
    size = float(view.weights.sum())
    total = view.rows[0].astype(np.float64) * view.scale * size
    rest = total - pair.size * pair.middle - others.expected_total(size - pair.size)
    return float(rest @ others.whiten(pair.difference))


TESTS: dict[Rows, Test] = {
    "participant": score_own_row,
    "anonymous": score_nearest_row,
    "mixture": score_values,
    "sum": score_sum,
}
"""Tests by the meaning of a row; there is none for rows of groups."""

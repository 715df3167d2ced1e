"""MDA, minimum-diameter averaging. El Mhamdi et al., Genuinely distributed Byzantine machine learning, PODC 2020."""

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from fflbench.plugin import Matrix, NoAnswerError, Vector, rule, weighted_mean

MOST_STEPS = 100_000
"""Steps of the search after which there is no answer: some seconds."""


@rule("mda", title="MDA", tolerates="f < n/2")
def mda(updates: Matrix, f: int, *, distances: npt.NDArray[np.float64]) -> tuple[Vector, npt.NDArray[np.float64]]:
    r"""Average the n - f updates of which the two farthest from each other are nearest.

    $$ w = \frac{1}{n-f} \sum_{k \in S} x_k, \qquad
       S = \arg\min_{|S| = n - f} \max_{j, k \in S} \lVert x_j - x_k \rVert $$

    The subset is exact (Rousseeuw, 1985). To find it takes a time that may grow exponentially with f, and no answer is
    given where it would take too long. Of equal diameters the one of the first updates is taken.
    """
    weights = np.zeros(len(updates))
    weights[SubsetSearch(distances, f).smallest_diameter()] = 1
    return weighted_mean(updates, weights), weights


class SubsetSearch:
    """Search for the n - f rows with the smallest diameter. Sets of rows are whole numbers, with one bit per row.

    A diameter is possible if at most f rows can be removed so that no two of the others are farther from each other: a
    vertex cover of the graph of pairs that are too far. Branching on the row with most of them keeps the search short.
    """

    def __init__(self, distances: npt.NDArray[np.float64], f: int) -> None:
        self.distances, self.f, self.steps = distances, f, 0
        self.everybody = (1 << len(distances)) - 1

    def smallest_diameter(self) -> list[int]:
        """Return the rows of the subset, the first ones where several have the same diameter."""
        diameters = np.unique(self.distances)
        smallest = bisect_left(
            diameters, True, key=lambda diameter: self._is_enough(self._too_far(diameter), self.everybody, self.f)
        )
        too_far = self._too_far(diameters[smallest])
        kept, left, spare = [], self.everybody, self.f
        for row in range(len(self.distances)):
            if not left >> row & 1:
                continue
            lost = too_far[row] & left
            if self._is_enough(too_far, left & ~lost, spare - lost.bit_count()):
                kept.append(row)
                left, spare = left & ~lost, spare - lost.bit_count()
            else:
                left, spare = left & ~(1 << row), spare - 1
        return kept[: len(self.distances) - self.f]

    def _too_far(self, diameter: float) -> list[int]:
        """Return for each row the set of those that are farther from it than a diameter."""
        bits = np.packbits(self.distances > diameter, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in bits]

    def _is_enough(self, too_far: list[int], left: int, spare: int) -> bool:
        """Return whether so many of the rows that are left can be removed that no two of the others are too far."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise NoAnswerError(
                f"the search for the {len(too_far) - self.f} of {len(too_far)} updates with the smallest diameter "
                f"takes more than {MOST_STEPS:,} steps; a smaller f takes fewer"
            )
        if spare < 0:
            return False
        counts = {row: (far & left).bit_count() for row, far in enumerate(too_far) if left >> row & 1}
        row = max(counts, key=counts.__getitem__, default=0)
        most, pairs = counts.get(row, 0), sum(counts.values()) // 2
        if most <= 1 or pairs > spare * most:
            return pairs <= spare
        removed = left & ~(1 << row)
        return self._is_enough(too_far, removed, spare - 1) or self._is_enough(
            too_far, removed & ~too_far[row], spare - most
        )

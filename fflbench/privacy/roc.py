"""How well scores tell members from others: the ROC curve, its area, and its left end, where an attacker is sure.

Carlini et al. (Membership inference attacks from first principles, IEEE S&P 2022) argue for the left end: an attack
that is right about a few people for certain harms them more than one that is right by a little about everybody.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]

LEVELS = (0.01, 0.001)
NEEDED = {0.01: 100, 0.001: 10_000}
"""Non-members without which a rate of false positives cannot be told from none."""
GRID = tuple(float(f"{10**power:.6g}") for power in np.linspace(-4, 0, 41))
"""Rates of false positives at which a curve is kept."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Curve:
    """Rates at every threshold, from the strictest on."""

    false_positives: Scores
    true_positives: Scores
    members: int
    others: int

    @property
    def area(self) -> float:
        """The chance that a random member scores higher than a random other; ties count half."""
        return float(np.trapezoid(self.true_positives, self.false_positives))

    def drawn(self, level: float) -> float:
        """The most members found with no more than that share of false positives among these others."""
        allowed = np.searchsorted(self.false_positives, level + 1e-12, side="right") - 1
        return float(self.true_positives[allowed])

    def at(self, level: float, distinct: int) -> float:
        """The members found at a threshold that more others of their kind would pass at that rate, on average.

        Just below the k-th highest of n others lie k/(n + 1) of all others, so k - 1 of them may be above it. Where
        others come several times, they count once.
        """
        above = int(level * (distinct + 1) + 1e-9) - 1
        return self.drawn(above / distinct) if above >= 0 else 0.0


def curve(scores: Scores, members: Truth) -> Curve:
    """The curve of scores, of which higher ones say member; what is no number says nothing, and comes last."""
    scores = np.nan_to_num(scores, nan=-np.inf)
    order = np.argsort(-scores, kind="stable")
    ranked, found = scores[order], members[order]
    last_of_ties = np.append(ranked[1:] != ranked[:-1], True)
    right, wrong = np.cumsum(found)[last_of_ties], np.cumsum(~found)[last_of_ties]
    return Curve(
        np.concatenate([[0.0], wrong / wrong[-1]]), np.concatenate([[0.0], right / right[-1]]), right[-1], wrong[-1]
    )


def by_chance(members: int, others: int) -> float:
    """Half of the interval around 1/2 in which the area lies with 95% where scores tell nothing (Mann and Whitney)."""
    return 1.96 * float(np.sqrt((members + others + 1) / (12 * members * others)))


def exact_interval(found: int, tried: int) -> tuple[float, float]:
    """Where a share lies with at least 95% (Clopper and Pearson, Biometrika 1934)."""
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if found == 0 else float(betaincinv(found, tried - found + 1, tail))
    high = 1.0 if found == tried else float(betaincinv(found + 1, tried - found, 1 - tail))
    return low, high

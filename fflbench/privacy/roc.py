"""How well scores tell members from others: the ROC curve, its area, and its left end, where an attacker is sure.

Carlini et al. (Membership inference attacks from first principles, IEEE S&P 2022) argue for the left end: an attack
that is right about a few people for certain harms them more than one that is right by a little about everybody.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.measures.measure import Curve
from fflbench.metrics import LOWER, STILL, Metric
from fflbench.privacy.looking import ObservedFacts
from fflbench.records.validation import Content, Share, Some
from fflbench.statistics import exact_interval

Scores = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]

LEVELS = (0.01, 0.001)
NEEDED = {0.01: 100, 0.001: 10_000}
"""Non-members without which a rate of false positives cannot be told from none."""
GRID = tuple(float(f"{10**power:.6g}") for power in np.linspace(-4, 0, 41))
"""Rates of false positives at which a curve is kept."""


@dataclass(frozen=True)
class RocCurve:
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


def curve(scores: Scores, members: Truth) -> RocCurve:
    """The curve of scores, of which higher ones say member; what is no number says nothing, and comes last."""
    scores = np.nan_to_num(scores, nan=-np.inf)
    order = np.argsort(-scores, kind="stable")
    ranked, found = scores[order], members[order]
    last_of_ties = np.append(ranked[1:] != ranked[:-1], True)
    right, wrong = np.cumsum(found)[last_of_ties], np.cumsum(~found)[last_of_ties]
    return RocCurve(
        np.concatenate([[0.0], wrong / wrong[-1]]), np.concatenate([[0.0], right / right[-1]]), right[-1], wrong[-1]
    )


def by_chance(members: int, others: int) -> float:
    """Half of the interval around 1/2 in which the area lies with 95% where scores tell nothing (Mann and Whitney)."""
    return 1.96 * float(np.sqrt((members + others + 1) / (12 * members * others)))


def rates(scores: Scores, truth: npt.NDArray[np.bool_], distinct: int) -> dict[str, float | None]:
    """The area under the curve and the left end of it, with exact intervals, where there are non-members enough."""
    found = curve(scores, truth)
    told: dict[str, float | None] = {"auc": found.area, "auc_by_chance": by_chance(found.members, distinct)}
    for level in LEVELS:
        rate = found.at(level, distinct) if distinct >= NEEDED[level] else None
        low, high = exact_interval(round(rate * found.members), found.members) if rate is not None else (None, None)
        told |= {f"tpr_at_fpr_{level}": rate, f"tpr_at_fpr_{level}_low": low, f"tpr_at_fpr_{level}_high": high}
    return told


def points(scores: Scores, truth: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """The curve, as far as there are non-members to draw it."""
    found = curve(scores, truth)
    return [{"fpr": level, "tpr": found.drawn(level)} for level in GRID if level * found.others >= 1]


# Declarations that measures of inference share

MEANING = "Area under the ROC curve: 0.5 is chance, 1 certainty."
BY_CHANCE = "Where there is nothing to tell, one seed lies within so much of 0.5 in 95% of cases."
AREA = (
    Metric("auc", "AUC", MEANING, LOWER, digits=3, low=0.0, high=1.0, headline=True, drift=0.03),
    Metric("auc_by_chance", "AUC by chance, ±", BY_CHANCE, digits=3, low=0.0, drift=STILL),
)

CURVE = Curve("roc", "fpr", {"tpr": ""}, "ROC curve, each defense by the strongest observation", logarithmic=True)


class InferenceFacts(ObservedFacts):
    """Facts about those who were judged."""

    members: Some
    non_members: Some


class Point(Content):
    """A point of a ROC curve."""

    fpr: Share
    tpr: Share

"""ROC curve of an attack's scores, its area, and the true-positive rate at low false-positive rates.

Carlini et al. (Membership inference attacks from first principles, IEEE S&P 2022) argue for low false-positive rates:
an attack that is certain about a few people harms them more than one that beats chance a little about everybody.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.measures.measure import Curve
from fflbench.metrics import LOWER, STILL, Metric
from fflbench.privacy.observed_measure import ObservedFacts
from fflbench.records.validation import Content, Share, Some
from fflbench.report.statistics import exact_interval

Scores = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]

LEVELS = (0.01, 0.001)
NEEDED = {0.01: 100, 0.001: 10_000}
"""Number of non-members needed to estimate each false-positive rate."""
GRID = tuple(float(f"{10**power:.6g}") for power in np.linspace(-4, 0, 41))
"""False-positive rates at which a curve is recorded."""


@dataclass(frozen=True)
class RocCurve:
    """True- and false-positive rates at every threshold, strictest first."""

    false_positives: Scores
    true_positives: Scores
    members: int
    others: int

    @property
    def area(self) -> float:
        """Probability that a random member scores higher than a random non-member; ties count half."""
        return float(np.trapezoid(self.true_positives, self.false_positives))

    def drawn(self, level: float) -> float:
        """Return the highest true-positive rate at no more than that false-positive rate on these non-members."""
        allowed = np.searchsorted(self.false_positives, level + 1e-12, side="right") - 1
        return float(self.true_positives[allowed])

    def at(self, level: float, distinct: int) -> float:
        """Return the true-positive rate at a threshold that new non-members pass at that rate at most, on average.

        In expectation k/(n + 1) of all non-members score above the k-th highest of n, so k - 1 of them may be above the
        threshold. Non-members that are used several times count once.
        """
        above = int(level * (distinct + 1) + 1e-9) - 1
        return self.drawn(above / distinct) if above >= 0 else 0.0


def curve(scores: Scores, members: Truth) -> RocCurve:
    """Return the ROC curve of scores, higher for members; scores that are NaN rank last."""
    scores = np.nan_to_num(scores, nan=-np.inf)
    order = np.argsort(-scores, kind="stable")
    ranked, of_members = scores[order], members[order]
    last_of_ties = np.append(ranked[1:] != ranked[:-1], True)
    right, wrong = np.cumsum(of_members)[last_of_ties], np.cumsum(~of_members)[last_of_ties]
    return RocCurve(
        np.concatenate([[0.0], wrong / wrong[-1]]), np.concatenate([[0.0], right / right[-1]]), right[-1], wrong[-1]
    )


def by_chance(members: int, others: int) -> float:
    """Return half of the 95% interval around 1/2 of the area of random scores (Mann and Whitney)."""
    return 1.96 * float(np.sqrt((members + others + 1) / (12 * members * others)))


def rates(scores: Scores, truth: npt.NDArray[np.bool_], distinct: int) -> dict[str, float | None]:
    """Return the area under the curve and true-positive rates at low false-positive rates, with exact intervals."""
    roc = curve(scores, truth)
    metrics: dict[str, float | None] = {"auc": roc.area, "auc_by_chance": by_chance(roc.members, distinct)}
    for level in LEVELS:
        rate = roc.at(level, distinct) if distinct >= NEEDED[level] else None
        low, high = exact_interval(round(rate * roc.members), roc.members) if rate is not None else (None, None)
        metrics |= {f"tpr_at_fpr_{level}": rate, f"tpr_at_fpr_{level}_low": low, f"tpr_at_fpr_{level}_high": high}
    return metrics


def points(scores: Scores, truth: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return the curve's points at the rates for which there are enough non-members."""
    roc = curve(scores, truth)
    return [{"fpr": level, "tpr": roc.drawn(level)} for level in GRID if level * roc.others >= 1]


# Declarations that measures of inference share

MEANING = "Area under the ROC curve: 0.5 is chance, 1 certainty."
BY_CHANCE = "Half-width of the 95% interval around 0.5 of one seed, for random scores."
AREA = (
    Metric("auc", "AUC", MEANING, LOWER, digits=3, low=0.0, high=1.0, headline=True, drift=0.03),
    Metric("auc_by_chance", "AUC by chance, ±", BY_CHANCE, digits=3, low=0.0, drift=STILL),
)

CURVE = Curve("roc", "fpr", {"tpr": ""}, "ROC curve, each defense by the strongest observation", logarithmic=True)


class InferenceFacts(ObservedFacts):
    """Facts about members and non-members."""

    members: Some
    non_members: Some


class Point(Content):
    """A point of a ROC curve."""

    fpr: Share
    tpr: Share

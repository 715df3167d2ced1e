"""ROC curve of an attack's scores, its area, and the true-positive rate at low false-positive rates.

Carlini et al. (Membership inference attacks from first principles, IEEE S&P 2022) argue for low false-positive rates:
an attack that identifies a few members with certainty is worse than one that is slightly better than chance on all.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.measures.measure import Curve
from fflbench.metrics import LOWER, NO_DRIFT, Metric
from fflbench.privacy.privacy_measure import PrivacyFacts
from fflbench.records.validation import PositiveCount, RecordFields, Share
from fflbench.report.statistics import clopper_pearson_interval

Scores = npt.NDArray[np.float64]
Truth = npt.NDArray[np.bool_]

FALSE_POSITIVE_RATES = (0.01, 0.001)
NON_MEMBERS_NEEDED = {0.01: 100, 0.001: 10_000}
"""Number of non-members needed to estimate each false-positive rate."""
GRID = tuple(float(f"{10**power:.6g}") for power in np.linspace(-4, 0, 41))
"""False-positive rates at which a curve is recorded."""


@dataclass(frozen=True)
class RocCurve:
    """True- and false-positive rates at every threshold, strictest first."""

    fpr: Scores
    tpr: Scores
    members: int
    non_members: int

    @property
    def auc(self) -> float:
        """Probability that a random member scores higher than a random non-member; ties count half."""
        return float(np.trapezoid(self.tpr, self.fpr))

    def tpr_at_empirical_fpr(self, fpr: float) -> float:
        """Return the highest true-positive rate at no more than this false-positive rate on these non-members."""
        allowed = np.searchsorted(self.fpr, fpr + 1e-12, side="right") - 1
        return float(self.tpr[allowed])

    def tpr_at_expected_fpr(self, fpr: float, distinct_non_members: int) -> float:
        """Return the true-positive rate at a threshold that new non-members exceed at this rate at most, on average.

        In expectation k/(n + 1) of all non-members score above the k-th highest of n, so k - 1 of them may be above the
        threshold. Non-members that are used several times count once.
        """
        above = int(fpr * (distinct_non_members + 1) + 1e-9) - 1
        return self.tpr_at_empirical_fpr(above / distinct_non_members) if above >= 0 else 0.0


def roc_curve(scores: Scores, members: Truth) -> RocCurve:
    """Return the ROC curve of scores, higher for members; scores that are NaN rank last."""
    scores = np.nan_to_num(scores, nan=-np.inf)
    order = np.argsort(-scores, kind="stable")
    ranked, is_member = scores[order], members[order]
    last_of_ties = np.append(ranked[1:] != ranked[:-1], True)
    true, false = np.cumsum(is_member)[last_of_ties], np.cumsum(~is_member)[last_of_ties]
    return RocCurve(
        np.concatenate([[0.0], false / false[-1]]), np.concatenate([[0.0], true / true[-1]]), true[-1], false[-1]
    )


def chance_auc_half_width(members: int, non_members: int) -> float:
    """Return the half-width of the 95% interval around 0.5 of the AUC of random scores (Mann and Whitney)."""
    return 1.96 * float(np.sqrt((members + non_members + 1) / (12 * members * non_members)))


def roc_metrics(scores: Scores, truth: npt.NDArray[np.bool_], distinct_non_members: int) -> dict[str, float | None]:
    """Return the area under the curve and true-positive rates at low false-positive rates, with exact intervals."""
    roc = roc_curve(scores, truth)
    metrics: dict[str, float | None] = {
        "auc": roc.auc,
        "auc_by_chance": chance_auc_half_width(roc.members, distinct_non_members),
    }
    for level in FALSE_POSITIVE_RATES:
        rate = (
            roc.tpr_at_expected_fpr(level, distinct_non_members)
            if distinct_non_members >= NON_MEMBERS_NEEDED[level]
            else None
        )
        low, high = (
            clopper_pearson_interval(round(rate * roc.members), roc.members) if rate is not None else (None, None)
        )
        metrics |= {f"tpr_at_fpr_{level}": rate, f"tpr_at_fpr_{level}_low": low, f"tpr_at_fpr_{level}_high": high}
    return metrics


def roc_points(scores: Scores, truth: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return the curve's points at the rates for which there are enough non-members."""
    roc = roc_curve(scores, truth)
    return [{"fpr": level, "tpr": roc.tpr_at_empirical_fpr(level)} for level in GRID if level * roc.non_members >= 1]


# Declarations shared by measures of inference

MEANING = "Area under the ROC curve: 0.5 is chance, 1 certainty."
BY_CHANCE = "Half-width of the 95% interval around 0.5 of one seed, for random scores."
AUC_METRICS = (
    Metric("auc", "AUC", MEANING, LOWER, digits=3, low=0.0, high=1.0, headline=True, drift=0.03),
    Metric("auc_by_chance", "AUC by chance, ±", BY_CHANCE, digits=3, low=0.0, drift=NO_DRIFT),
)

ROC_CURVE = Curve("roc", "fpr", {"tpr": ""}, "ROC curve, each defense by the strongest observation", logarithmic=True)


class InferenceFacts(PrivacyFacts):
    """Facts about members and non-members."""

    members: PositiveCount
    non_members: PositiveCount


class RocPoint(RecordFields):
    """A point of a ROC curve."""

    fpr: Share
    tpr: Share

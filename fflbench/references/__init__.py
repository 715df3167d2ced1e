"""Slow, readable definitions of rules and pre-aggregations, after their papers.

Tests and `fflbench check` compare implementations with them. They use plain loops and double precision, share no code
with the rules, and give every answer that a definition allows, since papers leave ties open. Where one departs from its
paper, its citation says so.
"""

from dataclasses import replace

from fflbench.references.clipping_rules import CENTERED_CLIPPING, CLIPPED_CLUSTERING, NORM_CLIPPING
from fflbench.references.coordinatewise import APPLIED, FEDAVG, MEDIAN, TRIMMED_MEAN, mean, median
from fflbench.references.foolsgold import FOOLSGOLD
from fflbench.references.krum import KRUM, MULTI_KRUM
from fflbench.references.outlier_rules import AUROR, DNC, THREE_SIGMA
from fflbench.references.preaggregations import ARC, BUCKETING, CLIPPING, NNM
from fflbench.references.reference import Reference, Variant, answers
from fflbench.references.reputation import REPUTATION
from fflbench.references.sign_rules import ROBUST_LEARNING_RATE, SIGN_MAJORITY

OTHER_RULES = {
    "fedavg": Variant((f"yours looks like the mean of all rows: {APPLIED}",), lambda rows, **_: [mean(rows)]),
    "median": Variant((f"yours looks like the median of every column: {APPLIED}",), lambda rows, **_: median(rows)),
    "": Variant((f"yours looks like the first row: {APPLIED}",), lambda rows, **_: [list(rows[0])]),
}
"""Aggregates that any other rule may be confused with."""


def _with_other_rules(reference: Reference) -> Reference:
    others = [variant for name, variant in OTHER_RULES.items() if name != reference.name]
    return replace(reference, variants=(*reference.variants, *others))


RULES = (
    FEDAVG,
    MEDIAN,
    TRIMMED_MEAN,
    KRUM,
    MULTI_KRUM,
    FOOLSGOLD,
    REPUTATION,
    NORM_CLIPPING,
    CENTERED_CLIPPING,
    CLIPPED_CLUSTERING,
    DNC,
    THREE_SIGMA,
    AUROR,
    ROBUST_LEARNING_RATE,
    SIGN_MAJORITY,
)
PREAGGREGATIONS = (NNM, BUCKETING, CLIPPING, ARC)

REFERENCES = {each.name: each for each in (*map(_with_other_rules, RULES), *PREAGGREGATIONS)}
"""References by the names of the rules and pre-aggregations that they define."""

__all__ = ["REFERENCES", "Reference", "Variant", "answers"]

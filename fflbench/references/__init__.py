"""Slow, readable definitions of rules and pre-aggregations, taken line by line from their papers.

Tests and `fflbench check` compare implementations with them. They use plain loops and double precision, share no code
with the rules, and give every answer that a definition allows, since papers leave ties open.
"""

from dataclasses import replace

from fflbench.references.coordinatewise import APPLIED, FEDAVG, MEDIAN, TRIMMED_MEAN, mean, median
from fflbench.references.foolsgold import FOOLSGOLD
from fflbench.references.krum import KRUM, MULTI_KRUM
from fflbench.references.preaggregations import ARC, BUCKETING, CLIPPING, NNM
from fflbench.references.reference import Reference, Variant, answers
from fflbench.references.reputation import REPUTATION

OTHER_RULES = (
    Variant((f"yours looks like the mean of all rows: {APPLIED}",), lambda rows, **_: [mean(rows)]),
    Variant((f"yours looks like the median of every coordinate: {APPLIED}",), lambda rows, **_: median(rows)),
    Variant((f"yours looks like the first row: {APPLIED}",), lambda rows, **_: [list(rows[0])]),
    Variant((f"yours looks like zeros: {APPLIED}",), lambda rows, **_: [[0.0] * len(rows[0])]),
)
"""Aggregates that any rule may be confused with."""

_RULES = (FEDAVG, MEDIAN, TRIMMED_MEAN, KRUM, MULTI_KRUM, FOOLSGOLD, REPUTATION)

REFERENCES = {
    **{each.name: replace(each, variants=(*each.variants, *OTHER_RULES)) for each in _RULES},
    **{each.name: each for each in (NNM, BUCKETING, CLIPPING, ARC)},
}
"""References by the names of the rules and pre-aggregations that they define."""

__all__ = ["REFERENCES", "Reference", "Variant", "answers"]

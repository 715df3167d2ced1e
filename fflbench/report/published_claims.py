"""Verdicts on papers' claims, by records and by the papers' own tables.

Values are compared seed by seed; the p-values of all comparisons of a claim in one setting are Holm-corrected.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fflbench.measures.published_results import PublishedClaim, PublishedPaper
from fflbench.records.record import Record
from fflbench.report.claim_comparisons import (
    ClaimComparison,
    ClaimOnTask,
    MeasuredValues,
    MissingValueError,
    PrintedValues,
    Values,
)
from fflbench.report.published_tables import differences_from_paper, open_choices
from fflbench.report.record_groups import expand_shared_records, measure_parameters
from fflbench.report.statistics import LEVEL, holm_adjusted_p_values, paired_difference
from fflbench.safe_texts import count_with_noun

Verdict = Literal["does not hold", "tied", "holds", "cannot be tested here", "no records yet", "no figures"]
DECIDED: tuple[Verdict, ...] = ("does not hold", "tied", "holds")
"""Verdicts of a test; one comparison that fails is enough, then one that is tied."""

RecordsBySetting = Mapping[tuple[str, str], Sequence[Sequence[Record]]]
"""Records by measure and task, then by setting."""


@dataclass(frozen=True)
class Judgement:
    """Verdict on a claim for one task in one setting, and its reasons."""

    task: str
    verdict: Verdict
    remark: str = ""
    """Of records, their differences from the paper's configuration; of printed figures, those that do not agree."""
    test: str = ""
    """Number of seeds and cells, and the comparison that decided."""
    records: tuple[Record, ...] = ()


def judge_on_tables(paper: PublishedPaper, claim: PublishedClaim) -> list[Judgement]:
    """Return the verdicts that a paper's own figures give, task by task."""
    source = PrintedValues(paper)
    findings = {task: _test_claim(paper, claim, task, source) for task in (claim.tasks if claim.tests else ())}
    return [
        Judgement(task, found.verdict, found.reason) if found else Judgement(task, "no figures")
        for task, found in findings.items()
    ]


def judge_on_records(paper: PublishedPaper, claim: PublishedClaim, records: RecordsBySetting) -> list[Judgement]:
    """Return the verdicts that records give, task by task, in the settings that are nearest to the paper's."""
    if claim.reason:
        return [Judgement("", "cannot be tested here", test=claim.reason)]
    return [each for task in claim.tasks for each in _judge_task(paper, claim, task, records)]


def _judge_task(paper: PublishedPaper, claim: PublishedClaim, task: str, records: RecordsBySetting) -> list[Judgement]:
    measure, _ = paper.context(claim)
    named = {end for test in claim.tests for end in test.growth.get("task", ()) if end != task}
    elsewhere = [record for name in named for record in next(iter(records.get((measure, str(name)), ())), ())]
    tested = []
    for own in records.get((measure, task), ()):
        source = MeasuredValues([*own, *elsewhere])
        if found := _test_claim(paper, claim, task, source):
            used = tuple(source.used[cell] for cell in sorted(source.used))
            tested.append((found, used, differences_from_paper(paper, used)))
    fewest = min((len(differing) for _, _, differing in tested), default=0)
    nearest = [each for each in tested if len(each[2]) == fewest]
    judged = []
    for found, used, differing in nearest:
        setting = [f"reduced: {', '.join(differing)}"] if differing else []
        setting += ["1 seed"] if found.seeds == 1 and found.decisive.is_seeded else []
        if len(nearest) > 1:
            own = [record for record in used if record.configuration["task"]["name"] == task]
            setting += open_choices(paper, own[0]) or ["defaults of the task"]
        judged.append(Judgement(task, found.verdict, "; ".join(setting), found.describe(len(used)), used))
    return judged or [Judgement(task, "no records yet")]


@dataclass(frozen=True)
class _TestResult:
    verdict: Verdict
    decisive: ClaimComparison
    p: float | None
    seeds: int

    @property
    def reason(self) -> str:
        """Comparison that contradicts the claim or is tied, if any."""
        return "" if self.verdict == "holds" else self.decisive.text

    def describe(self, cells: int) -> str:
        """Return the evidence: seeds, if values depend on them, cells, and the comparison that decides."""
        seeds = [count_with_noun(self.seeds, "seed")] if self.decisive.is_seeded else []
        behind = ", ".join([*seeds, count_with_noun(cells, "cell"), *(["no test"] if self.seeds == 1 else [])])
        p = "" if self.p is None or not self.decisive.mean else f", p = {self.p:.2g}"
        return f"{behind}; {self.decisive.text}{p}"


def _test_claim(paper: PublishedPaper, claim: PublishedClaim, task: str, source: Values) -> _TestResult | None:
    """Return the result of all tests of a claim on a task; None if values are missing."""
    tests = [test for test in claim.tests if task in (test.tasks or claim.tasks)]
    try:
        made = [each for test in tests for each in ClaimOnTask(paper, claim, test, task, source).comparisons()]
    except MissingValueError:
        return None
    differences = [paired_difference(each.gap, dict.fromkeys(each.gap, 0.0)) for each in made]
    raw = {place: each.p for place, each in enumerate(differences) if each and each.p is not None}
    adjusted = dict(zip(raw, holm_adjusted_p_values(list(raw.values())), strict=True))
    outcomes = [_outcome(each, adjusted.get(place)) for place, each in enumerate(made)]
    verdict = next(each for each in DECIDED if each in outcomes)
    relative = {place: each.mean / (each.scale or 1.0) for place, each in enumerate(made) if outcomes[place] == verdict}
    # The clearest failure, or else the comparison that is nearest to one.
    decisive = min(relative, key=lambda place: relative[place])
    return _TestResult(verdict, made[decisive], adjusted.get(decisive), min(len(each.gap) for each in made))


def _outcome(comparison: ClaimComparison, p: float | None) -> Verdict:
    if comparison.mean == 0:
        return "tied" if comparison.strict else "holds"
    # Without a p-value there is one seed, or the same gap with every seed.
    if p is not None and p >= LEVEL:
        return "tied"
    return "holds" if comparison.mean > 0 else "does not hold"


def records_by_setting(paper: PublishedPaper, records: Iterable[Record]) -> RecordsBySetting:
    """Return records by all parameters of task and measure that no test of a claim names, nearest settings first."""
    named = {name for claim in paper.claims for test in claim.tests for name in (*test.parameters, *test.growth)}
    by_key: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in expand_shared_records(records):
        task = record.configuration["task"]
        given = {name: value for name, value in measure_parameters(record).items() if name not in named}
        setting = json.dumps([task["parameters"], given], sort_keys=True)
        by_key.setdefault((record.measure, task["name"]), {}).setdefault(setting, []).append(record)
    return {
        name: sorted(settings.values(), key=lambda own: len(differences_from_paper(paper, own)))
        for name, settings in by_key.items()
    }

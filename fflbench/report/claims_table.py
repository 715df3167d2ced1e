"""Table of a paper's claims: what its own tables say about each, and what records say."""

from collections.abc import Sequence

from fflbench.measures.published_results import PublishedPaper
from fflbench.records.record import Record
from fflbench.report.published_claims import (
    Judgement,
    Verdict,
    judge_on_records,
    judge_on_tables,
    records_by_setting,
)
from fflbench.report.table_model import OVERALL, Column, FilledColumn, Table, TableCell
from fflbench.safe_texts import slug

ORDER: tuple[Verdict, ...] = ("does not hold", "tied", "holds", "cannot be tested here", "no records yet", "no figures")
"""Verdicts as a cell lists them."""
COLUMNS = (
    Column(name="section", title="in the paper", meaning="Section of the paper."),
    Column(name="tables", title="by the paper's own tables", meaning="Whether its figures agree with the sentence."),
    Column(name="records", title="by our records", meaning="Whether our records agree with the sentence."),
    Column(
        name="test", title="records and test", meaning="Records behind the verdict, and the comparison it rests on."
    ),
)


def claims_table(paper: PublishedPaper, records: Sequence[Record]) -> Table:
    """Return one row per claim, in the paper's order."""
    filled: dict[str, dict[str, TableCell]] = {column.name: {} for column in COLUMNS}
    by_setting = records_by_setting(paper, records)
    for claim in paper.claims:
        printed, measured = judge_on_tables(paper, claim), judge_on_records(paper, claim, by_setting)
        filled["section"][claim.sentence] = TableCell(text=claim.section)
        filled["tables"][claim.sentence] = TableCell(text=_verdicts(printed))
        filled["records"][claim.sentence] = TableCell(text=_verdicts(measured)).with_records(
            record for each in measured for record in each.records
        )
        filled["test"][claim.sentence] = TableCell(text="; ".join(filter(None, (_evidence(measured), claim.note))))
    return Table.from_columns(
        [FilledColumn(column, filled[column.name]) for column in COLUMNS],
        defense=lambda key: "",
        name=slug(f"claims-{paper.citation}")[:40],
        title=f"Claims of {paper.citation}",
        section=OVERALL,
        keys=("claim",),
        notes=(
            "Holds: every comparison that the sentence makes comes out so, by paired t tests at 5%, Holm-corrected. "
            "Does not hold: some comparison comes out the other way. Tied: no test distinguishes. With 1 seed, and for "
            "costs, there is no test: the values alone decide, and nothing is said about chance. Shown is the clearest "
            "failure, or else the comparison that is nearest to one. Thresholds for words such as comparable are ours.",
        ),
    )


def _verdicts(judged: Sequence[Judgement]) -> str:
    """Return the tasks of each verdict, as in "holds: adult-mlp; no records yet: mnist-cnn"."""
    parts = []
    for verdict in ORDER:
        own = [each for each in judged if each.verdict == verdict]
        tasks = [_where(each) for each in own if each.task]
        parts += [f"{verdict}: {', '.join(tasks)}" if tasks else verdict] if own else []
    return "; ".join(parts)


def _evidence(judged: Sequence[Judgement]) -> str:
    several = len([each for each in judged if each.test]) > 1
    return "; ".join(f"{_where(each)}: {each.test}" if several else each.test for each in judged if each.test)


def _where(judged: Judgement) -> str:
    return f"{judged.task} ({judged.remark})" if judged.remark else judged.task

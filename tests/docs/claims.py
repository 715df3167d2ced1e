"""Generate the table of the FFL paper's claims from leaderboards; `python -m tests.docs.claims` prints it."""

import functools
from pathlib import Path

from fflbench import registry
from fflbench.measures import published_results
from fflbench.records.collection import read_collection
from fflbench.report.claims_table import claims_table
from fflbench.report.leaderboard import find_leaderboards
from fflbench.report.published_claims import judge_on_records, judge_on_tables, records_by_setting
from fflbench.report.table_formats import to_markdown

ROOT = Path(__file__).parents[2]
BOARDS = ROOT / "leaderboards"
SUITES = ("paper-", "ffl-")
"""Beginnings of the names of leaderboards whose records count."""


def read_records(boards=BOARDS):
    """Return all records that claims are tested on."""
    folders = [folder for folder in find_leaderboards(boards) if folder.name.startswith(SUITES)]
    return [record for folder in folders for record in read_collection(folder).records]


def the_paper():
    """Return the FFL paper."""
    registry.load_installed()
    (paper,) = published_results.papers()
    return paper


def claims(boards=BOARDS):
    """Return the table of all claims, with verdicts from all records that there are."""
    return claims_table(the_paper(), read_records(boards))


@functools.cache
def verdicts():
    """Return the verdicts on each claim, by the paper's own tables and by records."""
    paper = the_paper()
    measured = records_by_setting(paper, read_records())
    return [(judge_on_tables(paper, claim), judge_on_records(paper, claim, measured)) for claim in paper.claims]


def as_markdown():
    """Return the table as Markdown, its texts on the left."""
    return to_markdown(claims()).replace("---:|", "---|")


if __name__ == "__main__":
    print(as_markdown())  # noqa: T201

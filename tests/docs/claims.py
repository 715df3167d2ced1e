"""Generate the table of the FFL paper's claims from leaderboards; `python -m tests.docs.claims` prints it."""

from pathlib import Path

from fflbench import registry
from fflbench.measures import published_results
from fflbench.records.collection import read_collection
from fflbench.report.claims_table import claims_table
from fflbench.report.leaderboard import find_leaderboards
from fflbench.report.table_formats import to_markdown

ROOT = Path(__file__).parents[2]
BOARDS = ROOT / "leaderboards"
SUITES = ("paper-", "ffl-")
"""Beginnings of the names of leaderboards whose records count."""


def claims(boards=BOARDS):
    """Return the table of all claims, with verdicts from all records that there are."""
    registry.load_installed()
    (paper,) = published_results.papers()
    folders = [folder for folder in find_leaderboards(boards) if folder.name.startswith(SUITES)]
    return claims_table(paper, [record for folder in folders for record in read_collection(folder).records])


def as_markdown():
    """Return the table as Markdown, its texts on the left."""
    return to_markdown(claims()).replace("---:|", "---|")


if __name__ == "__main__":
    print(as_markdown())  # noqa: T201

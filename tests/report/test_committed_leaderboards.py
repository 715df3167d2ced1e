"""Committed leaderboards: every file is what their records give."""

from pathlib import Path

import pytest

from fflbench.records.collection import read_collection
from fflbench.report import leaderboard
from fflbench.suites.plan import plan
from fflbench.suites.suite import read

BOARDS = leaderboard.find_leaderboards(Path(__file__).parents[2] / "leaderboards")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_committed_leaderboard_is_what_its_records_give(board):
    result = leaderboard.compare_with_records([board])
    assert (result.problems, result.differ) == ([], [])


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_the_suite_of_a_committed_leaderboard_still_has_its_cells(board):
    assert {record.id for record in read_collection(board).records} <= {cell.id for cell in plan(read(board.name))}

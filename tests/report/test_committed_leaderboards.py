"""Committed leaderboards: every file is what their records give."""

from pathlib import Path

import pytest

from fflbench.report import leaderboard

BOARDS = leaderboard.find_leaderboards(Path(__file__).parents[2] / "leaderboards")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_a_committed_leaderboard_is_what_its_records_give(board):
    result = leaderboard.compare_with_records([board])
    assert (result.problems, result.differ) == ([], [])

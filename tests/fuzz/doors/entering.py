"""Defenses to enter into a leaderboard: odd files and options, and leaderboards with altered records."""

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.doors.leaderboards import records_of_leaderboard, replace_record, write_board
from tests.fuzz.doors.plugins import NAMES, source
from tests.fuzz.doors.records import altered_record
from tests.fuzz.mutation import hostile_value, shell_argument, typed_text

OPTIONS = ("--defense", "--name", "--link", "--citation", "--set", "--board")
CHAINS = ("{} + median", "{}", "nnm + {}", "fragment-exchange + {}", "median", "+", "{} +")


def _prepare_fixtures() -> None:
    fixtures.make_records()
    fixtures.make_leaderboard_files()


@door("enter", share=0.5, isolated=True, prepare=_prepare_fixtures)
def enter(case: Case) -> None:
    """`enter --dry-run` of odd plugin files, with odd options, into leaderboards with altered records."""
    rng = case.rng
    board, kind, name = write_board(case), rng.choice(("rule", "preaggregation", "transport")), rng.choice(NAMES[:4])
    case.write("plugin.py", source(rng, kind, name))
    if rng.random() < 0.4:
        replace_record(case, board, altered_record(rng, rng.choice(records_of_leaderboard()), keep_id=True))
    chosen = ["--defense", rng.choice(CHAINS).format(name)] if kind != "rule" or rng.random() < 0.2 else []
    if rng.random() < 0.4:
        chosen += [rng.choice(OPTIONS), shell_argument(typed_text(hostile_value(rng)))]
    case.command("enter", "plugin.py", "--board", board, *chosen, "--dry-run")

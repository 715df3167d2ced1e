"""Inputs as they are: fflbench must accept what cases start from, or they would all end at the same refusal."""

from collections.abc import Callable

from tests.fuzz import fixtures
from tests.fuzz.case import Case, CommandResult
from tests.fuzz.door import door
from tests.fuzz.doors import gradients, leaderboards, records


def _suite(case: Case) -> CommandResult:
    name = case.rng.choice(list(fixtures.shipped_suites()))
    return case.command("run", case.write(f"{name}.toml", fixtures.shipped_suites()[name]), "--dry-run")


def _record(case: Case) -> CommandResult:
    record = case.rng.choice(fixtures.make_records())
    record.write(case.folder / "records")
    return case.command(*case.rng.choice((["show"], ["run", "--dry-run"])), f"records/{record.id}.json")


def _tables(case: Case) -> CommandResult:
    measures = case.rng.choice(records.MEASURES)
    return records.run_again(case, measures, records.records_of_measures(measures))


def _leaderboard(case: Case) -> CommandResult:
    return case.command("leaderboard", leaderboards.write_board(case), writes=["boards"])


def _entry(case: Case) -> CommandResult:
    board = leaderboards.write_board(case)
    leaderboards.write_entry(case, leaderboards.outside_records(case.rng), leaderboards.ENTRY)
    return case.command("leaderboard", board, "--add", "entry", writes=["boards"])


def _gradient(case: Case) -> CommandResult:
    gradients.write_files(case)
    options = [part for name, value in gradients.OPTIONS.items() for part in (f"--{name}", value)]
    return case.command("attack", "idlg", *options, writes=["rebuilt"])


ATTEMPTS: tuple[Callable[[Case], CommandResult], ...] = (_suite, _record, _tables, _leaderboard, _entry, _gradient)


@door("unaltered", share=0.15, prepare=fixtures.make_leaderboard_files)
def unaltered(case: Case) -> None:
    """Shipped suites, fresh records, leaderboards, entries and gradients, which are all accepted."""
    ran = ATTEMPTS[case.number % len(ATTEMPTS)](case)
    case.require(ran.code == 0, "an input is refused that nobody altered", case.log[0], ran.err)

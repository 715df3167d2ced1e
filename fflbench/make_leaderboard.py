"""Command `fflbench leaderboard`: make leaderboards, or compare them with their records, and print the outcome."""

from collections.abc import Sequence
from pathlib import Path

import typer

from fflbench.errors import FflbenchError
from fflbench.registration import KNOWLEDGE
from fflbench.report import leaderboard


def make_or_check_leaderboards(
    folder: Path | None,
    *,
    out: Path | None,
    add: Path | None,
    knows: Sequence[str],
    every: bool,
    check: bool,
    allow_partial: bool,
) -> bool:
    """Make or compare leaderboards; return whether all are complete and, if compared, the same."""
    if unknown := set(knows) - set(KNOWLEDGE):
        raise FflbenchError(f'--knows "{min(unknown)}": one of {", ".join(KNOWLEDGE)}')
    if (every or check) and (out or add or knows):
        raise FflbenchError("--all and --check are for leaderboards as they are: leave out --out, --add and --knows")
    if folder is None and not every:
        raise FflbenchError("which folder? Name one, as in fflbench leaderboard results/quick, or give --all")
    if every:
        return _regenerate_or_compare(leaderboard.find_leaderboards(folder or leaderboard.BOARDS), check, allow_partial)
    assert folder is not None
    if check:
        return _regenerate_or_compare([folder], check, allow_partial)
    return _make_one_leaderboard(folder, out, knows, add) or allow_partial


def _regenerate_or_compare(folders: Sequence[Path], check: bool, allow_partial: bool) -> bool:
    again = leaderboard.compare_with_records(folders) if check else leaderboard.regenerate_all(folders)
    for line in again.report_lines:
        typer.echo(line, err=True)
    return not again.differ and (not again.problems or allow_partial)


def _make_one_leaderboard(folder: Path, out: Path | None, knows: Sequence[str], add: Path | None) -> bool:
    target, evidence = leaderboard.generate(folder, out, knows, add)
    if add:
        typer.echo(f"{add} is added, as reported; fflbench verify {folder} --plugin ... runs it again", err=True)
    for problem in evidence.problems:
        typer.echo(problem, err=True)
    typer.echo(f"{len(evidence.records)} records: {target / leaderboard.PAGE}", err=True)
    return not evidence.problems

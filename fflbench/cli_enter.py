"""Options of `fflbench enter`."""

from pathlib import Path
from typing import Annotated

import typer

from fflbench import cli_options
from fflbench.cli_options import DataDir, Plugins


def enter_command(
    file: Annotated[str, typer.Argument(help="A Python file with your defense.", metavar="FILE")],
    board: Annotated[
        str, typer.Option(help="A leaderboard: its folder, or the name of one in leaderboards/.")
    ] = "quick",
    defense: Annotated[
        str | None, typer.Option(help='Which of the file\'s defenses, or a chain, as in "my-clipping + median".')
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the defense, as in f=2; may be given several times.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of its row (default: the defense's own).")] = None,
    link: Annotated[str, typer.Option(help="Address of your code or paper, as in https://...")] = "",
    citation: Annotated[str | None, typer.Option(help="Its source (default: the docstring of the file).")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for results (default: results/enter-BOARD-NAME).")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Cells in parallel (default: one per core).")] = None,
    device: Annotated[str, typer.Option(help="Where participants train: cpu, or cuda.")] = "cpu",
    plugin: Plugins = None,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and an estimate, run nothing.")] = False,
) -> None:
    """Run everything that a leaderboard measures for your defense, and add its row.

    Tasks, attacks, deviations and seeds are those of the leaderboard's own defenses. Finished cells are kept, so the
    same command resumes a stopped run. Times of another processor than the leaderboard's are marked in their cells.
    Examples: fflbench enter my_rule.py --board quick · fflbench enter my_clipping.py --defense "my-clipping + median"
    """
    from fflbench import enter_leaderboard
    from fflbench.execution.run_options import Options

    options = Options(
        workers=workers,
        device=device,
        plugins=(file, *(plugin or ())),
        command=cli_options.command_line(),
        data_dir=data_dir,
    )
    request = enter_leaderboard.EntryRequest(
        file, board, defense, dict(cli_options.parse_key_values(settings or ())), name, link, citation, out
    )
    enter_leaderboard.enter(request, options, dry_run=dry_run)

"""Commands of the command line, with their options; other modules do the work.

Nothing heavy is imported before a command needs it, so that `--help` and completion answer at once.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fflbench import __version__, cli_check, cli_enter, cli_options
from fflbench.cli_options import DataDir, ListedKind, NewKind, Out, Plugins, ShownTables, load_plugins
from fflbench.exit_codes import errors_as_exit_codes
from fflbench.registry import Kind
from fflbench.terminal import safe_output

app = typer.Typer(
    name="fflbench",
    help="Benchmark federated-learning defenses against attackers: robustness, privacy and cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Show and download data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fflbench {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_command(
    kind: Annotated[ListedKind, typer.Argument(help="Kind of plugin.")],
    as_json: Annotated[bool, typer.Option("--json", help="All details, as JSON.")] = False,
    plugin: Plugins = None,
    data_dir: DataDir = None,
) -> None:
    """List plugins of a kind, built-in ones and your own, with their parameters.

    Defenses are named chains, and rules and transports that can be used alone. Examples: fflbench list tasks ·
    fflbench list defenses --plugin my_defense.py --json
    """
    from fflbench import list_plugins_and_datasets, registry

    failures = registry.load_named(plugin or [])
    for failure in (*registry.load_installed(), *failures):
        typer.echo(failure, err=True)
    problems = list_plugins_and_datasets.print_plugins(
        next(each for each in Kind if each.plural == kind), as_json=as_json
    )
    for problem in problems:
        typer.echo(problem, err=True)
    if failures or problems:
        raise typer.Exit(1)


@app.command("new")
def new_command(
    kind: Annotated[NewKind, typer.Argument(help="Kind of plugin, or of its example.")],
    name: Annotated[str, typer.Argument(help="Its name in suites and tables, as in my-rule.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for both files.")] = Path(),
) -> None:
    """Write the file of a new plugin and a test that passes: an example of its kind, to change into your own.

    Examples: fflbench new rule my-rule · fflbench new adaptive-attack my-attack --out plugins
    """
    from fflbench import new_plugin

    plugin_file, test_file = new_plugin.write_plugin(kind, name, out)
    typer.echo(f"wrote {plugin_file} and {test_file}; next:")
    for step in new_plugin.next_steps(kind, name, plugin_file, test_file):
        typer.echo(f"  {step}")


@app.command("run")
def run_command(
    suite: Annotated[
        str, typer.Argument(help="A suite by name, a suite file, or a record to run again: its file, or BOARD/ID.")
    ],
    out: Out = Path("results"),
    seeds: Annotated[str | None, typer.Option(help="Seeds instead of the suite's, as in 0,1,2.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change the suite: rounds=10, defense.ffl.mode=full; may be given several times."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Cells in parallel (default: one per core; on Ray: as many as fit).")
    ] = None,
    executor: Annotated[
        str, typer.Option(help="Where cells run: local, ray or one of a plugin's (fflbench list executors).")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Address of the cluster, as in 10.0.0.1:6379 (Ray: $RAY_ADDRESS, else a new one here)."),
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="Retries of a cell whose node was lost.")] = 3,
    cell_timeout: Annotated[
        str | None, typer.Option(help="Time limit of a cell, as in 90s, 30m or 2h (default: none).")
    ] = None,
    device: Annotated[str, typer.Option(help="Where participants train: cpu, or cuda.")] = "cpu",
    memory_limit: Annotated[
        str | None,
        typer.Option(help="Memory for all cells together, as in 16GB (default: all of the machine)."),
    ] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    tables: Annotated[
        ShownTables, typer.Option(help="Tables to print: the one that joins all measures, or all; files have all.")
    ] = ShownTables.SUMMARY,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Write events as JSON, one object per line on standard error.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and an estimate, run nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run finished cells again too.")] = False,
) -> None:
    """Run a suite of attacks against defenses, and print the table that joins its measures.

    Finished cells are kept and skipped next time, so the same command resumes a stopped run. Ctrl-C stops after running
    cells have saved their state, Ctrl-C twice stops at once. The exit code is 1 if a cell failed. Examples: fflbench
    run quick · fflbench run my-suite.toml --seeds 0,1 --set rounds=10 · fflbench run quick --executor ray
    """
    from fflbench import run_and_report
    from fflbench.execution import durations_and_sizes
    from fflbench.execution.run_options import Options

    options = Options(
        workers=workers,
        device=device,
        plugins=tuple(plugin or ()),
        memory_limit=None if memory_limit is None else durations_and_sizes.parse_bytes(memory_limit),
        cell_timeout=durations_and_sizes.parse_duration(cell_timeout),
        executor=executor,
        address=address,
        retries=retries,
        log_json=log_json,
        command=cli_options.command_line(),
        data_dir=data_dir,
    )
    run_and_report.run_and_print_tables(
        suite,
        options,
        out=out,
        seeds=cli_options.parse_seeds(seeds),
        settings=settings or [],
        all_tables=tables is ShownTables.ALL,
        dry_run=dry_run,
        force=force,
    )


@app.command("status")
def status_command(
    folder: Annotated[
        Path, typer.Argument(help="Folder of a run's results, as in results/quick, or of several.")
    ] = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, one object per run.")] = False,
) -> None:
    """Show the status of a run, from another terminal: cells done, running and failed, pace and time left.

    Example: fflbench status results/quick
    """
    from fflbench import run_and_report

    run_and_report.print_status(folder, as_json=as_json)


@app.command("leaderboard")
def leaderboard_command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of records, as in results/quick, or a leaderboard; with --all, a folder of leaderboards "
            "(default: leaderboards)."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the leaderboard (default: leaderboards/SUITE, or its own).")
    ] = None,
    add: Annotated[
        Path | None, typer.Option("--add", help="Folder of an outside entry to add first: entry.json and records.")
    ] = None,
    knows: Annotated[
        list[str] | None,
        typer.Option("--knows", help='Only attacks with at most this knowledge, as in "own data"; may be repeated.'),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Regenerate every leaderboard of a folder.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list files that differ from their records, and exit with 1.")
    ] = False,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Exit with 0 even if some records could not be used.")
    ] = False,
    plugin: Plugins = None,
) -> None:
    """Make tables and figures from records, without running cells; the same records give the same bytes.

    Damaged or altered records are reported and left out, and the exit code is 1. Examples: fflbench leaderboard
    results/quick · fflbench leaderboard leaderboards/quick --add their-entry · fflbench leaderboard --all --check
    """
    from fflbench import make_leaderboard

    load_plugins(plugin)
    complete = make_leaderboard.make_or_check_leaderboards(
        folder, out=out, add=add, knows=knows or (), every=every, check=check, allow_partial=allow_partial
    )
    if not complete:
        raise typer.Exit(1)


app.command("enter")(cli_enter.enter_command)


@app.command("verify")
def verify_command(
    folder: Annotated[Path, typer.Argument(help="A leaderboard, as in leaderboards/quick.")],
    sample: Annotated[int, typer.Option(min=1, help="Number of cells to run again.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the random sample.")] = 0,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Run long cells up to this round only, and compare them up to there.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where participants train: cpu, or cuda.")] = "cpu",
    plugin: Plugins = None,
    data_dir: DataDir = None,
) -> None:
    """Run a sample of a leaderboard's cells again and compare: bit by bit, or within the drift between processors.

    On the same versions and processor: same bits, or different. Elsewhere: reproduced (every figure within what was
    measured between processors); plausible, not reproduced (beyond that, but within the range of other seeds);
    different. Exit code 0: all cells are the same bits or reproduced. 1: one is not, or a record is damaged.
    With --plugin, cells of outside entries come first, and confirmed ones are marked in their entry.
    """
    from fflbench.execution import verify_leaderboard

    load_plugins(plugin)
    verdicts, problems = verify_leaderboard.verify_sample(folder, sample, seed, plugin or [], device, rounds)
    for problem in problems:
        typer.echo(problem, err=True)
    for verdict in verdicts:
        typer.echo(verdict)
    if problems or not all(verdict.confirmed for verdict in verdicts):
        raise typer.Exit(1)


@app.command("attack")
def attack_command(
    name: Annotated[
        str,
        typer.Argument(
            help="dlg, idlg, inverting-gradients, analytic, spear, cocktail-party, unrolled, or one of a plugin's."
        ),
    ],
    model: Annotated[str, typer.Option(help="Function that returns the model, as in my_package.nets:lenet.")],
    gradient: Annotated[
        Path, typer.Option(help="A safetensors file: a tensor for each parameter, by its name in the model.")
    ],
    shape: Annotated[str, typer.Option(help="Shape of one example, as in 3,32,32.")],
    count: Annotated[
        int | None,
        typer.Option(min=1, help="Examples that the gradient is the mean of (default: one per label, or 1)."),
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Classes of the examples, if known, as in 3,7.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="A safetensors file of the model's weights, if its function does not load them.")
    ] = None,
    originals: Annotated[
        Path | None,
        typer.Option(
            help='Original examples for scores: a safetensors file with "x", as the model takes it, and "y" if known.'
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(min=1e-12, help="Set if the file holds a change of the model: the rate of the SGD that made it."),
    ] = None,
    local_steps: Annotated[int, typer.Option(min=1, max=10**6, help="Number of those SGD steps.")] = 1,
    mean: Annotated[
        str | None, typer.Option(help="Mean by which inputs were normalised, as in 0.49,0.48,0.45.")
    ] = None,
    std: Annotated[str | None, typer.Option(help="Standard deviation by which inputs were normalised.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the attack, as in steps=500; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for pictures, tensors and scores.")] = Path("rebuilt"),
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of random starts.")] = 0,
    device: Annotated[str, typer.Option(help="Device: cpu, or cuda.")] = "cpu",
    plugin: Plugins = None,
) -> None:
    """Reconstruct examples from a gradient of your own, or from a change of your model.

    The model is in eval mode: batch normalisation uses running statistics. Example: fflbench attack
    inverting-gradients --model nets:lenet --gradient gradient.safetensors --shape 3,32,32 --labels 3
    """
    load_plugins(plugin)
    given = cli_options.parse_key_values(settings or ())
    from fflbench.privacy import gradient_file

    request = gradient_file.ReconstructionRequest(
        attack=name,
        model=model,
        gradient=gradient,
        shape=tuple(cli_options.parse_numbers(shape, "--shape", int)),
        count=count,
        labels=tuple(cli_options.parse_numbers(labels, "--labels", int)),
        weights=weights,
        originals=originals,
        learning_rate=learning_rate,
        local_steps=local_steps,
        mean=tuple(cli_options.parse_numbers(mean, "--mean", float)),
        std=tuple(cli_options.parse_numbers(std, "--std", float)),
        settings=given,
        seed=seed,
        device=device,
    )
    result = gradient_file.reconstruct(request)
    files = gradient_file.write_result(result, request, out)
    typer.echo(f"classes: {', '.join(map(str, result.examples.y[0].tolist()))}")
    if result.quality:
        typer.echo(f"psnr, dB: {', '.join(f'{value:.1f}' for value in result.quality.psnr)}")
    typer.echo(f"{result.seconds:.1f} s; in {out}: {', '.join(files)}", err=True)


app.command("check")(cli_check.check_command)


@app.command("show")
def show_command(
    cell: Annotated[
        str, typer.Argument(help="A record's file, BOARD/ID in a leaderboard, or the first letters of an id.")
    ],
    out: Out = Path("results"),
    plot: Annotated[
        Path | None, typer.Option(help="Also draw its curves to this file, .png or .svg: accuracy, and trust if any.")
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Show one record: configuration, metrics, its measure's curves, and the command that runs it again."""
    from fflbench.report import show_record

    load_plugins(plugin)
    file = show_record.find_record(cell, out)
    typer.echo(show_record.record_text(file))
    if plot:
        show_record.draw_history(file, plot)
        typer.echo(f"drawn to {plot}", err=True)


@data_app.command("status")
def data_status(data_dir: DataDir = None) -> None:
    """Show the files of each data set, their folder, and whether their checksums match.

    The exit code is 1 if a file is damaged; a missing one is no error.
    """
    from fflbench import list_plugins_and_datasets

    if list_plugins_and_datasets.print_data_status():
        raise typer.Exit(1)


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets by name, or: all", metavar="NAME...")],
    data_dir: DataDir = None,
) -> None:
    """Download data sets that are missing or damaged; each file is checked before it replaces anything.

    Interrupted downloads are resumed. Examples: fflbench data fetch mnist · fflbench data fetch all
    """
    from fflbench.data.datasets import DATASETS, get_dataset
    from fflbench.data.download import fetch

    for data_set in [get_dataset(name) for name in (DATASETS if "all" in names else names)]:
        fetch(data_set)
        typer.echo(f"{data_set.title} is complete in {data_set.folder}")


def main(arguments: list[str] | None = None) -> None:
    """Run the command; a mistake of the user ends in one sentence and exit code 2."""
    as_json = "--log-json" in (sys.argv[1:] if arguments is None else arguments)
    with safe_output(), errors_as_exit_codes(as_json=as_json):
        app(arguments)

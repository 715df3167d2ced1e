"""Command line: it parses arguments, calls the packages and prints, without logic of its own.

Nothing heavy is imported before a command needs it, so that `--help` and completion answer at once.
"""

import json
import os
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fflbench import __version__, registration
from fflbench.errors import FflbenchError, spelled_out
from fflbench.terminal import guarded, visible

app = typer.Typer(
    name="fflbench",
    help="Benchmark federated-learning defenses against attackers: robustness, privacy and cost.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="See which data sets are here, and fetch those that are not.", no_args_is_help=True)
app.add_typer(data_app, name="data")


N = TypeVar("N", int, float)


class Listable(StrEnum):
    """Arguments of `fflbench list`."""

    ATTACKS = "attacks"
    PRIVACY_ATTACKS = "privacy-attacks"
    DEFENSES = "defenses"
    RULES = "rules"
    TRANSPORTS = "transports"
    PREAGGREGATIONS = "preaggregations"
    OBSERVATIONS = "observations"
    TASKS = "tasks"
    MEASURES = "measures"
    SUITES = "suites"


class Executor(StrEnum):
    """Executors of cells."""

    LOCAL = "local"
    RAY = "ray"


Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A Python file or dotted module to load first; may be given several times."),
]


def _use_data_dir(folder: Path | None) -> Path | None:
    # The environment reaches worker processes and plugins alike.
    if folder is not None:
        os.environ["FFLBENCH_DATA"] = str(folder)
    return folder


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Folder of data sets, with one folder per set (default: $FFLBENCH_DATA, else the user cache).",
        callback=_use_data_dir,
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fflbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("list")
def list_command(
    what: Annotated[Listable, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything that is known, as JSON.")] = False,
    plugin: Plugins = None,
    data_dir: DataDir = None,
) -> None:
    """Show what is registered, built in or by plugins, with its parameters.

    Defenses are chains with a name of their own, and rules and transports that can be used alone. Examples: fflbench
    list tasks · fflbench list defenses --plugin my_defense.py --json
    """
    from fflbench import listing, registry

    failures = registry.load_named(plugin or [])
    for failure in (*registry.load_installed(), *failures):
        typer.echo(failure, err=True)
    kind = next(kind for kind in registry.Kind if kind.plural == what)
    problems = listing.show(kind, as_json=as_json)
    for problem in problems:
        typer.echo(problem, err=True)
    if failures or problems:
        raise typer.Exit(1)


def _seeds(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f'"{text}" is not a list of whole numbers such as 0,1,2') from None


Out = Annotated[Path, typer.Option("--out", help="Folder for results: records are in OUT/SUITE.")]


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
        Executor, typer.Option(help="Where cells run: this machine, or a Ray cluster.")
    ] = Executor.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(help="Of the Ray cluster, as in 10.0.0.1:6379 (default: $RAY_ADDRESS, else a new one here)."),
    ] = None,
    retries: Annotated[
        int, typer.Option(min=0, help="How often a cell is tried again that was lost with its Ray node.")
    ] = 3,
    cell_timeout: Annotated[
        str | None, typer.Option(help="Give a cell up that takes longer, as in 90s, 30m or 2h (default: never).")
    ] = None,
    device: Annotated[str, typer.Option(help="Where participants train: cpu, or cuda.")] = "cpu",
    memory_limit: Annotated[
        str | None,
        typer.Option(help="Memory that cells may take together, as in 16GB (default: what the machine has)."),
    ] = None,
    plugin: Plugins = None,
    data_dir: DataDir = None,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Report everything as JSON, one object per line on standard error.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and an estimate, run nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run again what is done already.")] = False,
) -> None:
    """Run a suite of attacks against defenses, and print its tables.

    Finished cells are kept and skipped next time, so a run that was stopped goes on where it was. Ctrl-C lets cells
    keep their state and stops, Ctrl-C twice stops at once. Ends with exit code 1 when a cell failed. Examples: fflbench
    run quick · fflbench run my-suite.toml --seeds 0,1 --set rounds=10 · fflbench run quick --executor ray
    """
    from fflbench import run_and_report
    from fflbench.execution import units
    from fflbench.execution.run import Options

    options = Options(
        workers=workers,
        device=device,
        plugins=tuple(plugin or ()),
        memory_limit=None if memory_limit is None else units.parse_bytes(memory_limit),
        cell_timeout=units.parse_duration(cell_timeout),
        executor=executor.value,
        address=address,
        retries=retries,
        log_json=log_json,
        command=spelled_out(shlex.join(["fflbench", *sys.argv[1:]])),
        data_dir=data_dir,
    )
    run_and_report.run(
        suite, options, out=out, seeds=_seeds(seeds), settings=settings or [], dry_run=dry_run, force=force
    )


@app.command("status")
def status_command(
    folder: Annotated[Path, typer.Argument(help="Where a run keeps its results, as results/quick, or results.")] = Path(
        "results"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON, one object per run.")] = False,
) -> None:
    """Show the status of a run, from another terminal: cells done, running and failed, pace and time left.

    Example: fflbench status results/quick
    """
    from fflbench import run_and_report

    run_and_report.status(folder, as_json=as_json)


@app.command("leaderboard")
def leaderboard_command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Records that a run wrote, as results/quick, or a leaderboard; with --all a folder of leaderboards "
            "(default: leaderboards)."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where it goes (default: leaderboards/SUITE, or where it is).")
    ] = None,
    add: Annotated[
        Path | None, typer.Option("--add", help="Take an entry from outside into it first: entry.json and records.")
    ] = None,
    knows: Annotated[
        list[str] | None,
        typer.Option("--knows", help='Only attackers who know at most this, as in --knows "own data"; several times.'),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Make every leaderboard of a folder again.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing, name files that differ from what records give; then exit 1.")
    ] = False,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Exit with 0 though some records could not be used.")
    ] = False,
    plugin: Plugins = None,
) -> None:
    """Make tables and figures from records; nothing runs, and the same records give the same bytes.

    Damaged or altered records are named and left out, and the exit code is 1. Examples: fflbench leaderboard
    results/quick · fflbench leaderboard leaderboards/quick --add their-entry · fflbench leaderboard --all --check
    """
    from fflbench import registry
    from fflbench.report import leaderboard

    for failure in registry.load_named(plugin or []):
        raise FflbenchError(str(failure))
    unknown = set(knows or ()) - set(registration.KNOWLEDGE)
    if unknown:
        raise FflbenchError(f'--knows "{min(unknown)}": one of {", ".join(registration.KNOWLEDGE)}')
    if (every or check) and (out or add or knows):
        raise FflbenchError("--all and --check are for leaderboards as they are: leave out --out, --add and --knows")
    if every:
        complete = _regenerate(leaderboard.all_boards(folder or leaderboard.BOARDS), check, allow_partial)
    elif folder is None:
        raise FflbenchError("which folder? Name one, as in fflbench leaderboard results/quick, or give --all")
    elif check:
        complete = _regenerate([folder], check, allow_partial)
    else:
        complete = _generate(folder, out, knows or (), add) or allow_partial
    if not complete:
        raise typer.Exit(1)


def _regenerate(folders: Sequence[Path], check: bool, allow_partial: bool) -> bool:
    """Make leaderboards again, or only compare them; return whether all are complete and, if compared, the same."""
    from fflbench.report import leaderboard

    again = leaderboard.compare(folders) if check else leaderboard.generate_all(folders)
    for line in again.lines:
        typer.echo(line, err=True)
    return not again.differ and (not again.problems or allow_partial)


def _generate(folder: Path, out: Path | None, knows: Sequence[str], add: Path | None) -> bool:
    """Make one leaderboard; return whether all records could be used."""
    from fflbench.report import leaderboard

    where, evidence = leaderboard.generate(folder, out, knows, add)
    if add:
        typer.echo(f"{add} is taken, as reported; fflbench verify {folder} --plugin ... runs it again", err=True)
    for problem in evidence.problems:
        typer.echo(problem, err=True)
    typer.echo(f"{len(evidence.records)} records: {where / leaderboard.PAGE}", err=True)
    return not evidence.problems


@app.command("verify")
def verify_command(
    folder: Annotated[Path, typer.Argument(help="A leaderboard, as leaderboards/quick.")],
    sample: Annotated[int, typer.Option(min=1, help="How many cells to run again.")] = 3,
    seed: Annotated[int, typer.Option(help="Which ones: another seed takes others.")] = 0,
    device: Annotated[str, typer.Option(help="Where participants train: cpu, or cuda.")] = "cpu",
    plugin: Plugins = None,
    data_dir: DataDir = None,
) -> None:
    """Run a sample of a leaderboard's cells again and compare: to the bit, or by what processors are known to differ.

    On the same versions and processor: same bits, or different. Elsewhere: reproduced (every figure within what was
    measured between processors); plausible, not reproduced (beyond that, but where other seeds let it expect);
    different. Exit code 0: all cells are the same bits or reproduced. 1: one is not, or a record is damaged.
    With --plugin, cells that were reported from outside come first, and those that hold are noted in their entry.
    """
    from fflbench import registry
    from fflbench.execution import verify

    for failure in registry.load_named(plugin or []):
        raise FflbenchError(str(failure))
    verdicts, problems = verify.verify(folder, sample, seed, plugin or [], device)
    for problem in problems:
        typer.echo(problem, err=True)
    for verdict in verdicts:
        typer.echo(verdict)
    if problems or not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)


@app.command("attack")
def attack_command(
    name: Annotated[str, typer.Argument(help="dlg, idlg, inverting-gradients, analytic, or one of a plugin's.")],
    model: Annotated[str, typer.Option(help="What makes the model, as in my_package.nets:lenet; run from here.")],
    gradient: Annotated[
        Path, typer.Option(help="A safetensors file: a tensor for each parameter, by its name in the model.")
    ],
    shape: Annotated[str, typer.Option(help="Of one example, as in 3,32,32.")],
    count: Annotated[
        int | None, typer.Option(min=1, help="Examples behind the gradient, a mean (default: one per label, or 1).")
    ] = None,
    labels: Annotated[str | None, typer.Option(help="Their classes where they are known, as in 3,7.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="The model's weights, safetensors, if what makes it does not load them.")
    ] = None,
    originals: Annotated[
        Path | None,
        typer.Option(
            help='The truth, to score against: safetensors with "x", as the model takes it, and "y" if known.'
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(min=1e-12, help="The file holds a change of the model, made by SGD with this rate."),
    ] = None,
    local_steps: Annotated[int, typer.Option(min=1, max=10**6, help="... in so many steps.")] = 1,
    mean: Annotated[str | None, typer.Option(help="By which inputs were normalised, as in 0.49,0.48,0.45.")] = None,
    std: Annotated[str | None, typer.Option(help="The same, of deviations.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="The attack's parameters, as in steps=500; several times.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for pictures, tensors and scores.")] = Path("rebuilt"),
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of random starts.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda.")] = "cpu",
    plugin: Plugins = None,
) -> None:
    """Rebuild examples from a gradient of your own, or from a change of your model.

    The model is set to judge (eval): batch normalisation uses running statistics. Example: fflbench attack
    inverting-gradients --model nets:lenet --gradient gradient.safetensors --shape 3,32,32 --labels 3
    """
    from fflbench import registry
    from fflbench.parameters import read_value

    for failure in registry.load_named(plugin or []):
        raise FflbenchError(str(failure))
    given = [setting.partition("=") for setting in settings or []]
    for key, equals, _ in given:
        if not (key and equals):
            raise FflbenchError(f'--set takes key=value, as in --set steps=500, not "{key}"')
    from fflbench.privacy import gradient_file

    request = gradient_file.Request(
        attack=name,
        model=model,
        gradient=gradient,
        shape=tuple(_numbers(shape, "--shape", int)),
        count=count,
        labels=tuple(_numbers(labels, "--labels", int)),
        weights=weights,
        originals=originals,
        learning_rate=learning_rate,
        local_steps=local_steps,
        mean=tuple(_numbers(mean, "--mean", float)),
        std=tuple(_numbers(std, "--std", float)),
        settings=tuple((key.strip(), read_value(text.strip())) for key, _, text in given),
        seed=seed,
        device=device,
    )
    result = gradient_file.answer(request)
    files = gradient_file.write(result, request, out)
    typer.echo(f"classes: {', '.join(map(str, result.guess.y[0].tolist()))}")
    if result.scores:
        typer.echo(f"psnr, dB: {', '.join(f'{value:.1f}' for value in result.scores.psnr)}")
    typer.echo(f"{result.seconds:.1f} s; in {out}: {', '.join(files)}", err=True)


def _numbers(text: str | None, option: str, kind: type[N]) -> list[N]:
    try:
        numbers = [kind(part) for part in (text or "").split(",")] if text else []
    except ValueError:
        raise FflbenchError(f'{option} takes numbers with commas between, as in 3,32,32, not "{text}"') from None
    if option == "--shape" and not all(size > 0 for size in numbers):
        raise FflbenchError(f"{option} {text}: every size must be at least 1")
    return numbers


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
    from fflbench import registry
    from fflbench.report import show

    for failure in registry.load_named(plugin or []):
        raise FflbenchError(str(failure))
    file = show.find(cell, out)
    typer.echo(show.show(file))
    if plot:
        show.draw(file, plot)
        typer.echo(f"drawn to {plot}", err=True)


@data_app.command("status")
def data_status(data_dir: DataDir = None) -> None:
    """Show the files of each data set, their folder, and whether their checksums are right.

    Ends with exit code 1 when a file is damaged; a missing one is no fault.
    """
    from fflbench import listing

    if listing.show_data_status():
        raise typer.Exit(1)


@data_app.command("fetch")
def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets by name, or: all", metavar="NAME...")],
    data_dir: DataDir = None,
) -> None:
    """Download data sets that are missing or damaged; each file is checked before it replaces anything.

    Broken downloads go on where they stopped. Examples: fflbench data fetch mnist · fflbench data fetch all
    """
    from fflbench.data.download import fetch
    from fflbench.data.sets import SETS, named

    for data_set in [named(name) for name in (SETS if "all" in names else names)]:
        fetch(data_set)
        typer.echo(f"{data_set.title} is complete in {data_set.folder}")


def _plain_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(visible(f"warning: {message}"), err=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command; a mistake of the user ends in one sentence and exit code 2."""
    warnings.showwarning = _plain_warning
    with guarded():
        _run(arguments)


def _run(arguments: list[str] | None) -> None:
    try:
        try:
            app(arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            # Of a file that the user named: a missing one, too long a name, a full disk.
            where = f"{error.filename}: " if error.filename is not None else ""
            raise FflbenchError(f"{where}{error.strerror or error}") from error
    except FflbenchError as error:
        if "--log-json" in (sys.argv[1:] if arguments is None else arguments):
            typer.echo(json.dumps({"event": "error", "text": str(error)}), err=True)
        else:
            typer.echo(f"fflbench: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of the output has closed it.
        sys.stderr.close()
        sys.exit(1)
    except Exception:
        # A bug in fflbench; the interpreter would print it past the guard.
        traceback.print_exc()
        sys.exit(1)

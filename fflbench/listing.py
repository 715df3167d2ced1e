"""What `fflbench list` and `fflbench data status` print."""

import json
from collections.abc import Callable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fflbench import registry
from fflbench.data import sources
from fflbench.data.prepared import is_prepared
from fflbench.data.sets import SETS
from fflbench.progress import track
from fflbench.registry import Entry, Kind
from fflbench.tasks import Task


def show(kind: Kind, *, as_json: bool) -> None:
    """Print every entry of a kind, as a table or with all that is known of it."""
    found = registry.entries(kind)
    if as_json:
        print(json.dumps([describe(entry) for entry in found], indent=2))  # noqa: T201
    elif not found:
        Console(stderr=True).print(f"No {kind.plural} are registered.")
    elif kind is Kind.TASK:
        _print_table(found, {"task": _name, **TASK_COLUMNS})
    else:
        _print_table(found, {kind.value: _name, **COLUMNS[kind], "can be told": _parameters})


def describe(entry: Entry) -> dict[str, Any]:
    """Everything the registry knows of an entry, as plain values."""
    known: dict[str, Any] = {
        "kind": entry.kind,
        "name": entry.name,
        "title": entry.title,
        "summary": entry.summary,
        "citation": entry.citation,
        "version": entry.version,
        "parameters": [
            {
                "name": parameter.name,
                "type": parameter.type,
                "required": parameter.required,
                "default": None if parameter.required else parameter.default,
                "meaning": parameter.meaning,
            }
            for parameter in entry.parameters
        ],
        "file": str(entry.file),
    }
    if entry.kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK):
        known["knows"] = entry.knows
    if entry.kind is Kind.DEFENSE:
        known["tolerates"] = entry.tolerates
    if entry.kind is Kind.TASK:
        task: Task = entry.create()
        known["data"] = task.data_set.title if task.data_set else None
        known |= {"classes": task.classes, "model_parameters": task.parameter_count()}
    return known


def show_data_status() -> bool:
    """Print the state of every part of every set; whether any is damaged."""
    table = _table("set", "file", "state", "prepared")
    damaged = []
    checks = ((data_set, found) for data_set in SETS.values() for found in sources.status(data_set))
    for data_set, found in track(
        checks, "Checking files", total=sum(len(data_set.parts) for data_set in SETS.values())
    ):
        state = found.problem if found.file is None else "damaged" if found.problem else "ok"
        if found.problem and found.file:
            damaged.append(found.problem)
        where = str(found.file or data_set.folder / found.part.name)
        table.add_row(data_set.name, Text(where), state, "yes" if is_prepared(data_set) else "not yet")
    table.add_row("digits", "comes with scikit-learn", "ok", "in memory")
    _console().print(table)
    for problem in damaged:
        Console(stderr=True, soft_wrap=True).print(Text(problem))
    return bool(damaged)


def _name(entry: Entry) -> str:
    return entry.name


def _parameters(entry: Entry) -> str:
    return "\n".join(map(str, entry.parameters))


def _knows(entry: Entry) -> str:
    return ", ".join(entry.knows)


COLUMNS: dict[Kind, dict[str, Callable[[Entry], str]]] = {
    Kind.ATTACK: {"what it does": lambda entry: entry.summary, "must know": _knows},
    Kind.PRIVACY_ATTACK: {"what it does": lambda entry: entry.summary, "must know": _knows},
    Kind.DEFENSE: {
        "what it does": lambda entry: entry.summary,
        "tolerates": lambda entry: entry.tolerates,
        "source": lambda entry: entry.citation,
    },
    Kind.SUITE: {"title": lambda entry: entry.title, "what it shows": lambda entry: entry.summary},
}


def _of_task(column: Callable[[Task], str]) -> Callable[[Entry], str]:
    return lambda entry: column(entry.create())


def _training(task: Task) -> str:
    momentum = f", momentum {task.momentum:g}" if task.optimizer == "sgd" else ""
    return f"{task.local_epochs}, {task.batch_size}, {task.optimizer} {task.learning_rate:g}{momentum}"


def _count(task: Task) -> str:
    count = task.parameter_count()
    return "once its data is here" if count is None else f"{count:,}"


TASK_COLUMNS: dict[str, Callable[[Entry], str]] = {
    "parameters": _of_task(_count),
    "participants / per round / rounds": _of_task(
        lambda task: f"{task.participants} / {task.per_round} / {task.rounds}"
    ),
    "local epochs, batch, optimiser": _of_task(_training),
    "flip": _of_task(lambda task: f"{task.classes[task.source]} to {task.classes[task.target]}"),
}


def _print_table(found: list[Entry], columns: dict[str, Callable[[Entry], str]]) -> None:
    table = _table(*columns)
    for entry in track(found, "Counting parameters") if found[0].kind is Kind.TASK else found:
        # Text, so that no plugin's name or docstring is read as markup.
        table.add_row(*(Text(column(entry)) for column in columns.values()))
    _console().print(table)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column == "parameters" else "left",
            overflow="fold",
            min_width=14 if "/" in column else None,
        )
    table.columns[0].no_wrap = True
    return table


def _console() -> Console:
    """Tables follow the terminal; in a file or a pipe they may be wide, since nothing there wraps well."""
    console = Console()
    return console if console.is_terminal else Console(width=200)

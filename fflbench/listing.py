"""Output of `fflbench list` and `fflbench data status`."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fflbench import parameters, registry
from fflbench.data import sources
from fflbench.data.prepared import NotPreparedError, is_prepared, prepared_only
from fflbench.data.sets import SETS
from fflbench.errors import in_a_line
from fflbench.federation import Rows, chain
from fflbench.parameters import Parameter, quoted
from fflbench.progress import track
from fflbench.registry import CHAINED, Entry, Kind
from fflbench.tasks import Task
from fflbench.terminal import console

Columns: TypeAlias = dict[str, Callable[[Entry], str]]


def show(kind: Kind, *, as_json: bool) -> list[str]:
    """Print every entry of a kind, as a table or as JSON; return the errors of plugins."""
    entries = _listed(kind)
    problems: list[str] = []
    if as_json:
        print(json.dumps([describe(entry, problems) for entry in entries], indent=2, default=quoted))  # noqa: T201
    elif not entries:
        console(sys.stderr).print(f"No {kind.plural} are registered.")
    else:
        columns = COLUMNS[kind]
        table = _table(*columns)
        for entry in track(entries, "Counting parameters") if kind is Kind.TASK else entries:
            # Text, so that no plugin's name or docstring is read as markup.
            table.add_row(*(Text(_cell(column, entry, problems)) for column in columns.values()))
        _wide().print(table)
    return problems


def _listed(kind: Kind) -> list[Entry]:
    """Return the entries of a kind; for defenses, also rules and transports that a suite can name alone."""
    if kind is not Kind.DEFENSE:
        return registry.entries(kind)
    alone = [entry for entry in registry.entries(Kind.TRANSPORT) if entry.target.rows == "sum"]
    entries = [*registry.entries(Kind.DEFENSE), *registry.entries(Kind.RULE), *alone]
    return sorted(entries, key=lambda entry: entry.name)


def describe(entry: Entry, problems: list[str]) -> dict[str, Any]:
    """Return all that the registry knows of an entry, as plain values."""
    own = _attempt(lambda: _own_parameters(entry), entry, problems) or {}
    known: dict[str, Any] = {
        "kind": entry.kind,
        "name": entry.name,
        "title": entry.title,
        "summary": entry.summary,
        "citation": entry.citation,
        "version": entry.version,
        "parameters": [_described(name, parameter) for name, parameter in own.items()],
        "file": str(entry.file),
    }
    if entry.kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK, Kind.OBSERVATION):
        known["knows"] = entry.knows
    if entry.kind in CHAINED:
        known["parts"] = _attempt(lambda: [part.name for part in _parts(entry)], entry, problems)
        known["tolerates"] = _attempt(lambda: _tolerates(entry), entry, problems)
    if entry.kind is Kind.TRANSPORT:
        known["rows"] = entry.target.rows
        known["deviation"] = [_described(each.name, each) for each in _deviations(entry)]
    if entry.kind is Kind.OBSERVATION:
        known["adaptive"] = entry.target.adaptive
    if entry.kind is Kind.TASK:
        task: type[Task] = entry.target
        known["data"] = task.data_set.title if task.data_set else None
        known["classes"] = task.classes
        known["model_parameters"] = _attempt(lambda: _parameter_count(entry.create()), entry, problems)
    return known


def _described(name: str, parameter: Parameter) -> dict[str, Any]:
    return {
        "name": name,
        "type": parameter.type,
        "required": parameter.required,
        "default": None if parameter.required else parameter.default,
        "meaning": parameter.meaning,
    }


def show_data_status() -> bool:
    """Print the state of every part of every data set; return whether any is damaged."""
    table = _table("set", "file", "state", "prepared")
    damaged = []
    checks = ((data_set, status) for data_set in SETS.values() for status in sources.status(data_set))
    for data_set, status in track(checks, "Checking files", total=sum(len(each.parts) for each in SETS.values())):
        if status.problem and status.file:
            damaged.append(status.problem)
        state = status.problem if status.file is None else "damaged" if status.problem else "ok"
        where = str(status.file or data_set.folder / status.part.name)
        table.add_row(data_set.name, Text(where), state, "yes" if is_prepared(data_set) else "not yet")
    table.add_row("digits", "comes with scikit-learn", "ok", "in memory")
    _wide().print(table)
    for problem in damaged:
        console(sys.stderr, soft_wrap=True).print(Text(problem))
    return bool(damaged)


def _attempt(work: Callable[[], Any], entry: Entry, problems: list[str]) -> Any:
    """Return the result of a plugin's code, or None after adding its error, of any type, to the problems."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        problems.append(f"{entry}: {in_a_line(error)}")
        return None


def _cell(column: Callable[[Entry], str], entry: Entry, problems: list[str]) -> str:
    return _attempt(lambda: column(entry), entry, problems) or ""


def _name(entry: Entry) -> str:
    return f"{entry.name}\n  version {entry.version}"


def _what(entry: Entry) -> str:
    return "\n".join(filter(None, (f"{entry.title}. {entry.summary}", entry.citation)))


def _parts(entry: Entry) -> tuple[Entry, ...]:
    """Return the parts of a named chain; for any other entry, itself."""
    return chain.parse(entry.target).entries if entry.kind is Kind.DEFENSE else (entry,)


def _own_parameters(entry: Entry) -> dict[str, Parameter]:
    """Return parameters by the names that set them; those of a chain's parts follow the name of the part."""
    of_parts = entry.kind is Kind.DEFENSE
    return {
        f"{part.name}.{each.name}" if of_parts else each.name: each
        for part in _parts(entry)
        for each in part.parameters
    }


def _parameters(entry: Entry) -> str:
    own = {name: replace(parameter, name=name) for name, parameter in _own_parameters(entry).items()}
    return "\n".join(f"{parameter}: {parameter.meaning}" for parameter in own.values())


def _tolerates(entry: Entry) -> str:
    return _parts(entry)[-1].tolerates


def _made_of(entry: Entry) -> str:
    return str(entry.target) if entry.kind is Kind.DEFENSE else entry.kind.value


def _deviations(entry: Entry) -> tuple[Parameter, ...]:
    """Return the parameters of deviations from a transport's protocol."""
    declared = entry.target.deviation
    return parameters.of_dataclass(declared) if declared else ()


def _knows(entry: Entry) -> str:
    return ", ".join(entry.knows) or "nothing"


def _of_task(column: Callable[[Task], str]) -> Callable[[Entry], str]:
    return lambda entry: column(entry.create())


def _training(task: Task) -> str:
    momentum = f", momentum {task.momentum:g}" if task.optimizer == "sgd" else ""
    return f"{task.local_epochs}, {task.batch_size}, {task.optimizer} {task.learning_rate:g}{momentum}"


def _attack_defaults(task: Task) -> str:
    """Return the parameters that a task gives to attacks, one line per attack."""
    return "\n".join(
        f"{attack}: {', '.join(f'{name} = {value}' for name, value in values.items())}"
        for attack, values in task.attack_defaults.items()
    )


def _parameter_count(task: Task) -> int | None:
    """Return the number of a model's parameters, or None if it depends on data that is not prepared yet."""
    try:
        with prepared_only():
            return task.parameter_count()
    except NotPreparedError:
        return None


def _count(task: Task) -> str:
    count = _parameter_count(task)
    return "once its data is prepared" if count is None else f"{count:,}"


ROWS: dict[Rows, str] = {
    "participant": "each participant's update",
    "mixture": "mixtures of several participants' updates, each submitted by one of them",
    "group": "the updates of groups",
    "anonymous": "updates without their senders",
    "sum": "the sum of all updates",
}
"""Meaning of a row of the server's view, by the word that transports declare."""

ATTACK_COLUMNS: Columns = {"attack": _name, "what it does": _what, "must know": _knows, "parameters": _parameters}

COLUMNS: dict[Kind, Columns] = {
    Kind.ATTACK: ATTACK_COLUMNS,
    Kind.PRIVACY_ATTACK: ATTACK_COLUMNS,
    Kind.DEFENSE: {
        "defense": _name,
        "what it does": _what,
        "made of": _made_of,
        "tolerates": _tolerates,
        "parameters": _parameters,
    },
    Kind.RULE: {"rule": _name, "what it does": _what, "tolerates": _tolerates, "parameters": _parameters},
    Kind.PREAGGREGATION: {
        "pre-aggregation": _name,
        "what it does": _what,
        "tolerates": _tolerates,
        "parameters": _parameters,
    },
    Kind.TRANSPORT: {
        "transport": _name,
        "what it does": _what,
        "the server sees": lambda entry: ROWS[entry.target.rows],
        "parameters": _parameters,
        "deviations": lambda entry: "\n".join(f"{each}: {each.meaning}" for each in _deviations(entry)) or "none",
    },
    Kind.OBSERVATION: {
        "observation": _name,
        "what it does": _what,
        "must know": _knows,
        "adaptive": lambda entry: "yes" if entry.target.adaptive else "no",
    },
    Kind.TASK: {
        "task": lambda entry: entry.name,
        "data, model": lambda entry: entry.title,
        "weights": _of_task(_count),
        "participants / per round / rounds": _of_task(
            lambda task: f"{task.participants} / {task.per_round} / {task.rounds}"
        ),
        "local epochs, batch, optimiser": _of_task(_training),
        "attacks' defaults": _of_task(_attack_defaults),
    },
    Kind.MEASURE: {"measure": _name, "what it finds out": _what, "parameters": _parameters},
    Kind.SUITE: {
        "suite": lambda entry: entry.name,
        "title": lambda entry: entry.title,
        "what it shows": lambda entry: entry.summary,
    },
}


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column == "weights" else "left",
            overflow="fold",
            min_width=len("100 / 50 / 200") if "/" in column else None,
            no_wrap=column in (columns[0], "weights"),
        )
    return table


def _wide() -> Console:
    """Return a console as wide as the terminal, or wide for files and pipes, where wrapped tables are hard to read."""
    normal = console()
    return normal if normal.is_terminal else console(width=200)

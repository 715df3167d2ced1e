"""Output of `fflbench list` and `fflbench data status`."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fflbench import plugin_parameters, registry
from fflbench.data import dataset_files
from fflbench.data.cache import NotPreparedError, is_prepared, loading_only_prepared
from fflbench.data.datasets import DATASETS
from fflbench.errors import error_in_one_line
from fflbench.federation import Rows, chain
from fflbench.math_as_text import math_as_text
from fflbench.plugin_parameters import Parameter, format_value
from fflbench.progress import track_progress
from fflbench.registry import CHAINED, Entry, Kind
from fflbench.tasks import Task
from fflbench.terminal import NARROW, console

Columns: TypeAlias = dict[str, Callable[[Entry], str]]

PARAMETERS = "parameters"
"""Title of the column of parameters."""


def print_plugins(kind: Kind, *, as_json: bool) -> list[str]:
    """Print every entry of a kind, as a table or as JSON; return the errors of plugins."""
    entries = _entries_to_list(kind)
    problems: list[str] = []
    if as_json:
        print(json.dumps([entry_as_dict(entry, problems) for entry in entries], indent=2, default=format_value))  # noqa: T201
    elif not entries:
        console(sys.stderr).print(f"No {kind.plural} are registered.")
    else:
        columns, shared = COLUMNS[kind], _shared_parameters(entries) if PARAMETERS in COLUMNS[kind] else []
        rows = [
            [_cell_text(title, column, entry, shared, problems) for title, column in columns.items()]
            for entry in (track_progress(entries, "Counting parameters") if kind is Kind.TASK else entries)
        ]
        out = _wide_console()
        if out.width < NARROW:
            _print_paragraphs(out, list(columns), rows)
        else:
            table = _make_table(*columns)
            for row in rows:
                # Text, so that no plugin's name or docstring is read as markup.
                table.add_row(*map(Text, row))
            out.print(table)
        for line in shared:
            out.print(Text(math_as_text(f"All {kind.plural}, unless listed otherwise: {line}")))
    return problems


def _print_paragraphs(out: Console, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows one below the other, for terminals in which the columns of a table would be too narrow to read."""
    for name, description, *others in rows:
        out.print(Text(" ".join(name.split()), style="bold"))
        out.print(Padding(Text(description), (0, 0, 0, 2)))
        for title, text in zip(titles[2:], others, strict=True):
            # Parameters, and whatever else has several lines, stand below their title.
            in_lines = title == PARAMETERS or "\n" in text
            if text:
                out.print(Padding(Text(f"{title}:" if in_lines else f"{title}: {text}"), (0, 0, 0, 2)))
            for line in text.splitlines() if in_lines else ():
                out.print(Padding(Text(line), (0, 0, 0, 4)))
        out.print()


def _shared_parameters(entries: Sequence[Entry]) -> list[str]:
    """Return the parameters that all of several entries have, as tables list them, with their most common defaults."""
    listed = [_call_plugin_code(partial(_parameters_by_name, entry), entry, []) or {} for entry in entries]
    shared = []
    for name, first in listed[0].items() if len(listed) > 1 else ():
        all_of_name = [own[name] for own in listed if name in own]
        alike = [each for each in all_of_name if (each.type, each.meaning) == (first.type, first.meaning)]
        if len(alike) == len(listed):
            shared.append(Counter(_parameter_line(name, each) for each in alike).most_common(1)[0][0])
    return shared


def _entries_to_list(kind: Kind) -> list[Entry]:
    """Return the entries of a kind; for defenses, also rules and transports that a suite can name alone."""
    if kind is not Kind.DEFENSE:
        return registry.entries(kind)
    alone = [entry for entry in registry.entries(Kind.TRANSPORT) if entry.target.rows == "sum"]
    entries = [*registry.entries(Kind.DEFENSE), *registry.entries(Kind.RULE), *alone]
    return sorted(entries, key=lambda entry: entry.name)


def entry_as_dict(entry: Entry, problems: list[str]) -> dict[str, Any]:
    """Return all that the registry knows of an entry, as plain values."""
    own = _call_plugin_code(lambda: _parameters_by_name(entry), entry, problems) or {}
    known: dict[str, Any] = {
        "kind": entry.kind,
        "name": entry.name,
        "title": entry.title,
        "summary": math_as_text(entry.summary),
        "citation": math_as_text(entry.citation),
        "version": entry.version,
        "parameters": [_parameter_as_dict(name, parameter) for name, parameter in own.items()],
        "file": str(entry.file),
    }
    if entry.kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK, Kind.OBSERVATION):
        known["knows"] = entry.knows
    if entry.kind in CHAINED:
        known["parts"] = _call_plugin_code(lambda: [part.name for part in _entries_of_chain(entry)], entry, problems)
        known["tolerates"] = _call_plugin_code(lambda: _tolerance_text(entry), entry, problems)
    if entry.kind is Kind.TRANSPORT:
        known["rows"] = entry.target.rows
        known["deviation"] = [_parameter_as_dict(each.name, each) for each in _deviation_parameters(entry)]
    if entry.kind is Kind.OBSERVATION:
        known["adaptive"] = entry.target.adaptive
    if entry.kind is Kind.TASK:
        task: type[Task] = entry.target
        known["data"] = task.data_set.title if task.data_set else None
        known["classes"] = task.classes
        known["model_parameters"] = _call_plugin_code(lambda: _count_model_parameters(entry.create()), entry, problems)
    return known


def _parameter_as_dict(name: str, parameter: Parameter) -> dict[str, Any]:
    return {
        "name": name,
        "type": parameter.type,
        "required": parameter.required,
        "default": None if parameter.required else parameter.default,
        "meaning": math_as_text(parameter.meaning),
    }


def print_data_status() -> bool:
    """Print the state of every part of every data set; return whether any is damaged."""
    table = _make_table("set", "file", "state", "prepared")
    damaged = []
    checks = ((data_set, status) for data_set in DATASETS.values() for status in dataset_files.check_files(data_set))
    count = sum(len(each.files) for each in DATASETS.values())
    for data_set, status in track_progress(checks, "Checking files", total=count):
        if status.problem and status.path:
            damaged.append(status.problem)
        state = status.problem if status.path is None else "damaged" if status.problem else "ok"
        where = str(status.path or data_set.folder / status.file.name)
        table.add_row(data_set.name, Text(where), state, "yes" if is_prepared(data_set) else "not yet")
    table.add_row("digits", "comes with scikit-learn", "ok", "in memory")
    _wide_console().print(table)
    for problem in damaged:
        console(sys.stderr, soft_wrap=True).print(Text(problem))
    return bool(damaged)


def _call_plugin_code(work: Callable[[], Any], entry: Entry, problems: list[str]) -> Any:
    """Return the result of a plugin's code, or None after adding its error, of any type, to the problems."""
    try:
        return work()
    except (Exception, SystemExit) as error:
        problems.append(f"{entry}: {error_in_one_line(error)}")
        return None


def _cell_text(
    title: str, column: Callable[[Entry], str], entry: Entry, shared: Collection[str], problems: list[str]
) -> str:
    """Return the text of a cell, without the parameters that are listed once for all entries."""
    text: str = _call_plugin_code(lambda: column(entry), entry, problems) or ""
    return math_as_text("\n".join(line for line in text.split("\n") if title != PARAMETERS or line not in shared))


def _name_text(entry: Entry) -> str:
    return f"{entry.name}\n  version {entry.version}"


def _description_text(entry: Entry) -> str:
    return "\n".join(filter(None, (f"{entry.title}. {entry.summary}", entry.citation)))


def _entries_of_chain(entry: Entry) -> tuple[Entry, ...]:
    """Return the parts of a named chain; for any other entry, itself."""
    return chain.parse(entry.target).entries if entry.kind is Kind.DEFENSE else (entry,)


def _parameters_by_name(entry: Entry) -> dict[str, Parameter]:
    """Return parameters by the names that set them; those of a chain's parts follow the name of the part."""
    of_parts = entry.kind is Kind.DEFENSE
    return {
        f"{part.name}.{each.name}" if of_parts else each.name: each
        for part in _entries_of_chain(entry)
        for each in part.parameters
    }


def _parameters_text(entry: Entry) -> str:
    return "\n".join(_parameter_line(name, each) for name, each in _parameters_by_name(entry).items())


def _parameter_line(name: str, parameter: Parameter) -> str:
    """Return a parameter as tables list it, by the name that sets it."""
    return f"{replace(parameter, name=name)}: {' '.join(parameter.meaning.split())}"


def _tolerance_text(entry: Entry) -> str:
    return _entries_of_chain(entry)[-1].tolerates


def _parts_text(entry: Entry) -> str:
    return str(entry.target) if entry.kind is Kind.DEFENSE else entry.kind.value


def _deviation_parameters(entry: Entry) -> tuple[Parameter, ...]:
    """Return the parameters of deviations from a transport's protocol."""
    declared = entry.target.deviation
    return plugin_parameters.parameters_of_dataclass(declared) if declared else ()


def _knowledge_text(entry: Entry) -> str:
    return ", ".join(entry.knows) or "nothing"


def _task_column(column: Callable[[Task], str]) -> Callable[[Entry], str]:
    return lambda entry: column(entry.create())


def _training_text(task: Task) -> str:
    momentum = f", momentum {task.momentum:g}" if task.optimizer == "sgd" else ""
    return f"{task.local_epochs}, {task.batch_size}, {task.optimizer} {task.learning_rate:g}{momentum}"


def _attack_defaults_text(task: Task) -> str:
    """Return the parameters that a task gives to attacks, one line per attack."""
    return "\n".join(
        f"{attack}: {', '.join(f'{name} = {value}' for name, value in values.items())}"
        for attack, values in task.attack_defaults.items()
    )


def _count_model_parameters(task: Task) -> int | None:
    """Return the number of a model's parameters, or None if it depends on data that is not prepared yet."""
    try:
        with loading_only_prepared():
            return task.parameter_count()
    except NotPreparedError:
        return None


def _model_size_text(task: Task) -> str:
    count = _count_model_parameters(task)
    return "once its data is prepared" if count is None else f"{count:,}"


ROWS: dict[Rows, str] = {
    "participant": "each participant's update",
    "mixture": "mixtures of several participants' updates, each submitted by one of them",
    "group": "the updates of groups",
    "anonymous": "updates without their senders",
    "sum": "the sum of all updates",
}
"""Meaning of a row of the server's view, by the word that transports declare."""


def _title_columns(kind: str) -> Columns:
    return {
        kind: lambda entry: entry.name,
        "title": lambda entry: entry.title,
        "what it does": lambda entry: entry.summary,
    }


ATTACK_COLUMNS: Columns = {
    "attack": _name_text,
    "what it does": _description_text,
    "must know": _knowledge_text,
    PARAMETERS: _parameters_text,
}

COLUMNS: dict[Kind, Columns] = {
    Kind.ATTACK: ATTACK_COLUMNS,
    Kind.PRIVACY_ATTACK: ATTACK_COLUMNS,
    Kind.DEFENSE: {
        "defense": _name_text,
        "what it does": _description_text,
        "made of": _parts_text,
        "tolerates": _tolerance_text,
        PARAMETERS: _parameters_text,
    },
    Kind.RULE: {
        "rule": _name_text,
        "what it does": _description_text,
        "tolerates": _tolerance_text,
        PARAMETERS: _parameters_text,
    },
    Kind.PREAGGREGATION: {
        "pre-aggregation": _name_text,
        "what it does": _description_text,
        "tolerates": _tolerance_text,
        PARAMETERS: _parameters_text,
    },
    Kind.TRANSPORT: {
        "transport": _name_text,
        "what it does": _description_text,
        "the server sees": lambda entry: ROWS[entry.target.rows],
        PARAMETERS: _parameters_text,
        "deviations": lambda entry: (
            "\n".join(f"{each}: {each.meaning}" for each in _deviation_parameters(entry)) or "none"
        ),
    },
    Kind.OBSERVATION: {
        "observation": _name_text,
        "what it does": _description_text,
        "must know": _knowledge_text,
        "adaptive": lambda entry: "yes" if entry.target.adaptive else "no",
    },
    Kind.TASK: {
        "task": lambda entry: entry.name,
        "data, model": lambda entry: entry.title,
        "weights": _task_column(_model_size_text),
        "participants / per round / rounds": _task_column(
            lambda task: f"{task.participants} / {task.per_round} / {task.rounds}"
        ),
        "local epochs, batch, optimiser": _task_column(_training_text),
        "attacks' defaults": _task_column(_attack_defaults_text),
    },
    Kind.ENGINE: _title_columns("engine"),
    Kind.EXECUTOR: _title_columns("executor"),
    Kind.MEASURE: {"measure": _name_text, "what it measures": _description_text, PARAMETERS: _parameters_text},
    Kind.SUITE: _title_columns("suite"),
}


def _make_table(*columns: str) -> Table:
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


def _wide_console() -> Console:
    """Return a console as wide as the terminal, or wide for files and pipes, where wrapped tables are hard to read."""
    normal = console()
    return normal if normal.is_terminal else console(width=200)

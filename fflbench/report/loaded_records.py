"""Records as Python users get them: a list with a pandas frame, and with tables that notebooks show."""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fflbench.errors import RecordError
from fflbench.records.cell_configuration import defense_parts, is_configured_part
from fflbench.records.collection import read_entry, record_sort_key
from fflbench.records.jsonl_file import ENTRIES
from fflbench.records.record import Record
from fflbench.records.store import read_all_records
from fflbench.report.record_groups import is_undefined
from fflbench.report.table_formats import to_markdown
from fflbench.report.table_model import Board, Table, escape_html


class Tables(list[Table]):
    """Tables of one or several suites; a notebook shows them as HTML."""

    def __init__(self, boards: Iterable[Board]) -> None:
        made = list(boards)
        super().__init__(table for board in made for table in board.tables)
        self.flags = [flag for board in made for flag in board.flags]
        """Warnings that concern more than one row."""

    def __repr__(self) -> str:
        return "\n\n".join(to_markdown(table) for table in self)

    def _repr_html_(self) -> str:
        flags = "".join(f"<li>⚑ {escape_html(flag)}</li>" for flag in self.flags)
        return "\n".join([*(table._repr_html_() for table in self), f"<ul>{flags}</ul>" if flags else ""])


class Records(list[Record]):
    """List of records, with a pandas frame and with the tables that `fflbench run --tables all` prints.

    A notebook shows the tables.

        records = fflbench.load("results")
        records.frame().groupby(["defense", "attack"]).accuracy.mean()
    """

    def __init__(self, records: Iterable[Record] = (), reported: Mapping[str, str] | None = None) -> None:
        super().__init__(records)
        self._reported = reported or {}

    def frame(self, *, shared: bool = False) -> Any:
        """Return a pandas data frame with one row per record.

        Columns are its id and suite, labels (task, attack, defense, ...), seed, status and metrics; parameters that
        differ among records of the same plugin, such as `attack.sigma` or `defense.clipping.bound`; `seconds.total` and
        those of steps; `processor` and `error`. A model that diverged has no metrics but `diverged`. With `shared`, a
        record that several defenses share has a row for each.
        """
        try:
            import pandas as pd  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise RecordError('a frame needs pandas: pip install "fflbench[pandas]"') from error

        from fflbench.report.record_groups import expand_shared_records

        records = list(expand_shared_records(self)) if shared else list(self)
        varied = _varied_parameters(records)
        rows = [
            (
                {
                    "id": record.id,
                    "suite": record.suite,
                    **_labels(record),
                    "seed": record.seed,
                    "status": record.status,
                },
                _valid_metrics(record),
                {column: value for column, _, value in _parameters(record) if column in varied},
                {f"seconds.{step}": seconds for step, seconds in record.seconds.items()},
                {"processor": record.manifest.get("processor"), "error": record.error},
            )
            for record in records
        ]
        # Columns of a group stand together, although records of different measures have different ones.
        columns = dict.fromkeys(name for group in zip(*rows, strict=True) for part in group for name in part)
        return pd.DataFrame([dict(ChainMap(*row)) for row in rows], columns=list(columns))

    def tables(self) -> Tables:
        """Return all tables of the records' suites."""
        from fflbench.report.all_tables import build_board

        suites: dict[str, list[Record]] = {}
        for record in self:
            suites.setdefault(record.suite, []).append(record)
        return Tables(build_board(suite, records, self._reported) for suite, records in suites.items())

    def _repr_html_(self) -> str:
        return self.tables()._repr_html_()


def _labels(record: Record) -> dict[str, str]:
    """Return the labels of a record, with poisoning and privacy attacks in one column."""
    return {"attack" if name == "privacy-attack" else name: label for name, label in record.labels.items()}


def _valid_metrics(record: Record) -> dict[str, Any]:
    """Return the metrics of a record as tables show them: without those of a run that diverged or is undefined."""
    left_out = record.metrics.get("diverged", False) or is_undefined(record)
    return {name: None if left_out and name != "diverged" else value for name, value in record.metrics.items()}


def load(folder: str | Path) -> Records:
    """Return all records under a folder of results or leaderboards.

    Damaged ones are reported by a warning and left out.

        fflbench.load("results").frame()
    """
    read = list(read_all_records(Path(folder)))
    own = {record.id for file, record in read if not _is_entry(file.parent)}
    origins = {file.parent: _origin(file.parent) for file, _ in read if _is_entry(file.parent)}
    reported = {record.id: origins[file.parent] for file, record in read if file.parent in origins}
    records = sorted((record for _, record in read), key=record_sort_key)
    return Records(records, {cell: origin for cell, origin in reported.items() if cell not in own})


def _is_entry(folder: Path) -> bool:
    """Return whether a folder is an entry from outside in a leaderboard."""
    return folder.parent.name == ENTRIES


def _origin(entry: Path) -> str:
    with suppress(RecordError):
        return read_entry(entry).origin
    return "reported, not run again"


def _parameters(record: Record) -> Iterator[tuple[str, str, Any]]:
    """Yield the column, the plugin and the value of each parameter in a record's configuration."""
    for kind, part in record.configuration.items():
        if kind == "defense":
            for each in defense_parts(part):
                yield from (
                    (f"defense.{each.name}.{name}", each.name, value) for name, value in each.parameters.items()
                )
        elif is_configured_part(part):
            yield from ((f"{kind}.{name}", part["name"], value) for name, value in part["parameters"].items())


def _varied_parameters(records: Iterable[Record]) -> set[str]:
    """Return the columns of parameters that differ among records of the same plugin."""
    values: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for column, plugin, value in _parameters(record):
            values.setdefault((column, plugin), set()).add(repr(value))
    return {column for (column, _), different in values.items() if len(different) > 1}

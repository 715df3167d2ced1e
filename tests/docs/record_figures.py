"""Figures of records and of papers, as pages of the documentation show them."""

import functools
import json
import re
from statistics import fmean

from fflbench import registry
from fflbench.measures import published_results
from fflbench.records.cell_configuration import defense_parts
from fflbench.records.collection import read_collection
from fflbench.report.published_tables import record_value
from fflbench.report.record_groups import SeedRuns, expand_shared_records, measure_class
from fflbench.report.statistics import estimate_mean, format_number
from fflbench.report.table_model import Column, TableCell
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.docs.claims import BOARDS, verdicts

LAST_ROUNDS = re.compile(r"last(\d+)\.(\w+)$")
"""Path of a mean over the last rounds of a record's history."""


class Shown(str):
    """Text with a figure that a page may show, since records, a paper or a definition stand behind it."""

    __slots__ = ()


class Runs:
    """Records of a leaderboard, narrowed down by calls: `records("quick")(defense="ffl", attack="none")`."""

    def __init__(self, records):
        self.records = list(records)

    def __call__(self, **wanted):
        """Return the records with these labels (task, attack, defense, deviation, measure) or parameters."""
        found = [record for record in self.records if all(_has(record, *each) for each in wanted.items())]
        if not found:
            raise LookupError(f"no record has {wanted}")
        return Runs(found)

    # Values

    def values(self, path):
        """Return a metric, a fact or (under `last.`) a value of the last round of each record.

        Under `last10.` it is the mean over the last ten rounds; values that are lists count as their lengths.
        """
        read = _mean_of_last_rounds if LAST_ROUNDS.match(path) else record_value
        values = [read(record, path) for record in self.records]
        if None in values:
            raise LookupError(f"not every record has {path}: {sorted(self.records[0].facts)}")
        return values

    def value(self, path):
        """Return the mean over seeds of one configuration, as a number to calculate with."""
        self._require_one_configuration()
        return fmean(self.values(path))

    def strongest(self, path):
        """Return the records of the attack with the highest mean over seeds of a metric that measures its success."""
        return max(
            (self(attack=name) for name in sorted(set(map(_attack, self.records)))), key=lambda runs: runs.value(path)
        )

    # Texts

    def attack(self):
        """Return the name of the attack that all records have in common."""
        (name,) = set(map(_attack, self.records))
        return Shown(name)

    def mean(self, path, **column):
        """Return the mean over seeds of one configuration."""
        return number(self.value(path), **self._column(path, column))

    def interval(self, path, **column):
        """Return the mean over seeds with its 95% interval, as tables show it."""
        self._require_one_configuration()
        shown = Column(**{"name": "figure", "title": "", "meaning": "", "seeded": False} | self._column(path, column))
        metric = self._metric(path)
        if metric is not None and metric.trials:
            runs = SeedRuns.from_records(self.records)
            return Shown(runs.cell(metric, shown, set(runs.records)).display_text(shown))
        return Shown(TableCell.from_estimate(estimate_mean(self.values(path)), shown).display_text(shown))

    def lowest(self, path, **column):
        """Return the lowest value of all records, whatever their configurations."""
        return number(min(self.values(path)), **self._column(path, column))

    def highest(self, path, **column):
        """Return the highest value of all records, whatever their configurations."""
        return number(max(self.values(path)), **self._column(path, column))

    def parameter(self, name):
        """Return a parameter that all records have in common."""
        (value,) = {json.dumps(_parameters(record)[name]) for record in self.records}
        return Shown(value if value.startswith('"') else f"{json.loads(value):,}")

    def defense_parameter(self, name):
        """Return a parameter of the defense that all records have in common."""
        parts = [part for record in self.records for part in defense_parts(record.configuration["defense"])]
        (value,) = {part.parameters[name] for part in parts if name in part.parameters}
        return Shown(f"{value:,}")

    def processor(self):
        """Return the processor that all records were made on."""
        (name,) = {record.manifest["processor"] for record in self.records}
        return Shown(name)

    def seeds(self):
        """Return the number of seeds."""
        return Shown(len({record.seed for record in self.records}))

    def count(self):
        """Return the number of records."""
        return Shown(f"{len(self.records):,}")

    def _require_one_configuration(self):
        different = {
            json.dumps({**record.configuration, "seed": None, "label": record.labels["defense"]}, sort_keys=True)
            for record in self.records
        }
        if len(different) > 1:
            labels = sorted({str(record.labels) for record in self.records})
            raise LookupError(f"{len(different)} configurations, not one: {labels[:6]}")

    def _metric(self, path):
        return next((each for each in measure_class(self.records).metrics if each.name == path), None)

    def _column(self, path, changes):
        """Return how a value is shown: as the metric declares, unless the page says otherwise."""
        metric = self._metric(path)
        names = ("digits", "factor", "powers_from")
        return ({name: getattr(metric, name) for name in names} if metric else {}) | changes


def _parameters(record):
    """Return parameters of a record's task, attack, deviation and measure."""
    kinds = ("task", "attack", "privacy-attack", "deviation", "measure")
    parts = (record.configuration.get(kind) for kind in kinds)
    return {name: value for part in parts if part for name, value in part["parameters"].items()}


def _mean_of_last_rounds(record, path):
    count, name = LAST_ROUNDS.match(path).groups()
    values = [round[name] for round in record.history[-int(count) :]]
    return fmean(len(value) if isinstance(value, list) else value for value in values)


def _attack(record):
    return record.labels.get("attack", record.labels.get("privacy-attack", ""))


def _has(record, name, wanted):
    labels = {
        **record.labels,
        "attack": _attack(record),
        "deviation": record.labels.get("deviation", ""),
        "measure": record.measure,
    }
    value = labels.get(name, _parameters(record).get(name))
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted


@functools.cache
def records(board):
    """Return the records of a leaderboard, those that defenses share under each of their labels."""
    registry.load_installed()
    return Runs(expand_shared_records(read_collection(BOARDS / board).displayed_records))


def core_hours(board):
    """Return the hours that all cells of a leaderboard took together."""
    seconds = {record.id: record.seconds.get("total", 0.0) for record in records(board).records}
    return number(sum(seconds.values()) / 3600, digits=0)


def cell_count(board):
    """Return the number of cells that a leaderboard has records of."""
    return Shown(f"{len({record.id for record in records(board).records}):,}")


def planned_count(board):
    """Return the number of cells that the suite of a leaderboard plans."""
    return Shown(f"{len(_planned_cells(board)):,}")


def is_complete(board):
    """Return whether a leaderboard has every cell of the seeds that it has."""
    there = {record.id for record in records(board).records}
    seeds = {record.seed for record in records(board).records}
    return all(cell.id in there for cell in _planned_cells(board) if cell.seed in seeds)


@functools.cache
def _planned_cells(board):
    registry.load_installed()
    return plan(read(board))


def number(value, *, digits=2, factor=1.0, powers_from=1e12):
    """Return a number that was calculated from values of records."""
    return Shown(format_number(value * factor, digits, powers_from))


def percent(value, *, digits=0):
    """Return a share that was calculated from values of records as a percentage, without its sign."""
    return number(value, digits=digits, factor=100)


def given(text):
    """Return a number that is a definition or part of a name, and no result."""
    return Shown(text)


@functools.cache
def _published():
    registry.load_installed()
    return [figure for paper in published_results.papers() for figure in paper.figures]


def paper(table, row, column, benchmark, updates=None):
    """Return a figure as the FFL paper prints it; in tables with several numbers of updates, for one of them."""
    wanted = (f"tab:{table}", row, column, benchmark, updates)
    found = [
        each for each in _published() if (each.table, each.row, each.column, each.benchmark, each.updates) == wanted
    ]
    if len(found) != 1:
        raise LookupError(f"{len(found)} figures of the paper are {wanted}")
    return Shown(found[0].value)


def claim_count(verdict=None):
    """Return the number of the paper's claims: of all, or of those with a verdict and no other."""
    judged = [{each.verdict for each in measured} for _, measured in verdicts()]
    return Shown(sum(verdict is None or each == {verdict} for each in judged))


def verdict_count(verdict, *, printed=False):
    """Return how often a claim has a verdict on a task, by records or by the paper's own printed tables."""
    return Shown(
        sum(each.verdict == verdict for tables, measured in verdicts() for each in (tables if printed else measured))
    )

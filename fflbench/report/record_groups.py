"""Records grouped into tables: by measure, task and setting, then by defense, attack, observation and seed."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fflbench import registry
from fflbench.measures.measure import Measure
from fflbench.metrics import Metric
from fflbench.records.cell_configuration import defense_name, defense_parts
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.statistics import BySeed, clopper_pearson_interval, estimate_mean
from fflbench.report.table_model import SECTIONS, Column, TableCell, round_to_twelve_digits

BASELINE, NO_ATTACK = "fedavg", "none"
"""Names of the defense that others are compared with, and of the attack that does nothing."""
NOTED = {"transport": "a transport", "preaggregations": "pre-aggregations", "rule": "a rule"}


def measure_class(records: Sequence[Record]) -> type[Measure]:
    """Return the class of the records' measure; if it is not loaded, a stand-in with the metrics they have."""
    if entry := registry.find(Kind.MEASURE, records[0].measure):
        measure: type[Measure] = entry.target
        return measure
    figures = {
        name: value
        for record in records
        for name, value in record.metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    metrics = tuple(
        Metric(name=name, title=name, meaning="Its plugin is not loaded.", headline=place == 0, optional=True)
        for place, name in enumerate(figures)
    )
    return type("NotHere", (Measure,), {"metrics": metrics})


def row_label(record: Record) -> str:
    """Return the label of a record's row: its defense, and its participants' deviation from the protocol, if any."""
    return ", ".join(filter(None, (record.labels["defense"], deviation_label(record))))


def deviation_label(record: Record) -> str:
    """Return the label of a record's deviation, or an empty text."""
    return record.labels.get("deviation", "")


def expand_shared_records(records: Iterable[Record]) -> Iterator[Record]:
    """Yield each record once under the label of every defense that shares it."""
    for record in records:
        yield record.model_copy(update={"shared_by": {}}) if record.shared_by else record
        others = {kind: swept for kind, swept in record.sweep.items() if kind != Kind.DEFENSE}
        for label, swept in record.shared_by.items():
            labels = record.labels | {"defense": label}
            sweep = others | ({Kind.DEFENSE.value: swept} if swept else {})
            yield record.model_copy(update={"labels": labels, "sweep": sweep, "shared_by": {}})


def measure_parameters(record: Record) -> dict[str, Any]:
    """Return the parameters of a record's measure."""
    parameters: dict[str, Any] = record.configuration["measure"]["parameters"]
    return parameters


@dataclass(frozen=True)
class SeedRuns:
    """Records of one cell of a table, by seed."""

    records: Mapping[int, Record] = field(default_factory=dict)

    @classmethod
    def from_records(cls, records: Iterable[Record]) -> "SeedRuns":
        """Return records by their seeds."""
        return cls({record.seed: record for record in records})

    def values(self, metric: str, diverged: float | None = None) -> dict[int, float]:
        """Return a metric by seed, for the seeds that have it; with `diverged`, that value for runs that diverged."""
        by_seed = {
            seed: diverged if record.metrics.get("diverged") else record.metrics.get(metric)
            for seed, record in self.records.items()
            if record.status == "done" and not is_undefined(record)
        }
        return {seed: float(value) for seed, value in by_seed.items() if isinstance(value, int | float)}

    @property
    def diverged(self) -> int:
        """Number of runs that diverged."""
        return sum(bool(record.metrics.get("diverged")) for record in self.records.values())

    def problem(self, seeds: set[int], *, divergence: bool = True) -> str:
        """Return why values are incomplete, in a few words; an empty text if they are not."""
        counts = {
            "failed": sum(record.status == "failed" for record in self.records.values()),
            "undefined": sum(map(is_undefined, self.records.values())),
            "diverged": self.diverged if divergence else 0,
            "missing": len(seeds - set(self.records)),
        }
        if counts["undefined"] == len(seeds):
            return "undefined"
        return ", ".join(f"{count} of {len(seeds)} {what}" for what, count in counts.items() if count)

    def cell(
        self, metric: Metric, column: Column, seeds: set[int], note: str = "", *, count_diverged: bool = False
    ) -> TableCell:
        """Return the mean over seeds with its interval, or why there is none.

        With `count_diverged`, diverged runs count with the value that the metric declares for them, if any.
        """
        diverged = metric.diverged if count_diverged else None
        values = self.values(metric.name, diverged)
        if diverged is not None and self.diverged:
            note = ", ".join(filter(None, (note, f"{self.diverged} of {len(seeds)} diverged")))
        if problem := self.problem(seeds, divergence=diverged is None):
            cell = TableCell(text=problem)
        elif metric.trials:
            cell = self._pooled_cell(metric, values, note) if len(values) == len(self.records) else TableCell()
        else:
            cell = (
                TableCell.from_estimate(estimate_mean(list(values.values())), column, note) if values else TableCell()
            )
        return cell.with_records(self.records.values())

    def _pooled_cell(self, metric: Metric, values: BySeed, note: str) -> TableCell:
        """Return the share pooled over all seeds, with the exact binomial interval."""
        trials = {seed: int(record.facts[metric.trials]) for seed, record in self.records.items()}
        successes = sum(round(values[seed] * count) for seed, count in trials.items())
        mean = successes / sum(trials.values())
        low, high = map(round_to_twelve_digits, clopper_pearson_interval(successes, sum(trials.values())))
        return TableCell(mean=round_to_twelve_digits(mean), low=low, high=high, seeds=len(values), note=note)


def is_usable(record: Record) -> bool:
    """Return whether a record is finished, has not diverged and is not undefined."""
    return record.status == "done" and not record.metrics.get("diverged") and not is_undefined(record)


def is_undefined(record: Record) -> bool:
    """Return whether a finished record has no result, since its measure calls its setting undefined."""
    return record.status == "done" and measure_class([record]).is_undefined(record)


@dataclass(frozen=True)
class RecordGroup:
    """Records of one measure, task and setting."""

    measure: type[Measure]
    title: str
    """Title of the measure and its setting, which follows the task's name."""
    task: str
    records: tuple[Record, ...]
    reported: frozenset[str] = frozenset()
    """Ids of records that were reported from outside."""
    variants: tuple[Record, ...] = ()
    """Records of its rows' defenses with other values of a parameter, as of a misjudged f: no rows of their own."""

    @property
    def heading(self) -> str:
        """Beginning of its tables' titles."""
        return f"{self.task}, {self.title}"

    @property
    def is_demonstration(self) -> bool:
        """Whether its cells are demonstrations."""
        return self.measure.is_demonstration(measure_parameters(self.records[0]))

    @property
    def is_sweep_point(self) -> bool:
        """Whether its measure's setting is one point of a sweep."""
        return all(Kind.MEASURE in record.sweep for record in self.records)

    @cached_property
    def seeds(self) -> set[int]:
        """All seeds, some of which a cell may lack."""
        return {record.seed for record in self.records}

    @property
    def shared_parts(self) -> str:
        """Parts that defenses with common records share, as a note names them; an empty text without any."""
        several = len({record.id for record in self.records}) < len(self.records)
        return " and ".join(NOTED[part] for part in self.measure.depends_on) if several else ""

    @cached_property
    def defenses(self) -> dict[str, str]:
        """Labels of rows in order, with the defense of each: one defense may have several deviations."""
        labels = {row_label(record): record.labels["defense"] for record in self.records}
        return {row: labels[row] for row in ordered_labels(self.records, "defense", row_label)}

    @cached_property
    def rows(self) -> dict[str, dict[str, str]]:
        """Rows of each defense, by deviation."""
        deviations = {row_label(record): deviation_label(record) for record in self.records}
        by_defense: dict[str, dict[str, str]] = {}
        for row, defense in self.defenses.items():
            by_defense.setdefault(defense, {})[deviations[row]] = row
        return by_defense

    @cached_property
    def attacks(self) -> list[str]:
        """Labels of attacks, in the order of their columns; a single empty one where the measure has none."""
        return ordered_labels(self.records, attack_kind(self.records[0]), attack_label)

    @cached_property
    def observations(self) -> list[str]:
        """Observations, in the order of the records; a single empty one without any."""
        return list(dict.fromkeys(map(self.observation, self.records)))

    def observation(self, record: Record) -> str:
        """Return the observation of a record's attack."""
        return str(measure_parameters(record).get(self.measure.observed, "")) if self.measure.observed else ""

    def runs(self, row: str, attack: str, observation: str = "") -> SeedRuns:
        """Return the records of one cell."""
        return SeedRuns.from_records(self.records_by_cell.get((row, attack, observation), ()))

    @cached_property
    def records_by_cell(self) -> dict[tuple[str, str, str], list[Record]]:
        """Records by row, attack and observation."""
        places: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            place = row_label(record), attack_label(record), self.observation(record)
            places.setdefault(place, []).append(record)
        return places

    @property
    def baseline(self) -> str:
        """Label of FedAvg, or in a suite without it of the first defense."""
        return BASELINE if BASELINE in self.rows else next(iter(self.rows))

    @property
    def no_attack(self) -> str:
        """Label of the attack that does nothing, if it was run."""
        kind = attack_kind(self.records[0])
        names = (attack_label(record) for record in self.records if _plugin_name(record, kind) == NO_ATTACK)
        return next(names, "")

    def records_of(self, *, defense: str = "", attack: str = "") -> list[Record]:
        """Return the records of one defense, one attack, or both."""
        return [*self._records_by_labels.get((defense, attack), ())]

    @cached_property
    def _records_by_labels(self) -> dict[tuple[str, str], list[Record]]:
        """Records by defense and attack, an empty text for any."""
        found: dict[tuple[str, str], list[Record]] = {}
        for record in self.records:
            for place in itertools.product({"", record.labels["defense"]}, {"", attack_label(record)}):
                found.setdefault(place, []).append(record)
        return found


def records_by_measure(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return records by their measure, in the order of the measures' sections.

    Records that several defenses share appear once for each.
    """
    by_name: dict[str, list[Record]] = {}
    for record in expand_shared_records(records):
        by_name.setdefault(record.measure, []).append(record)

    def place(item: tuple[str, list[Record]]) -> int:
        section = measure_class(item[1]).section
        return SECTIONS.index(section) if section in SECTIONS else len(SECTIONS)

    return dict(sorted(by_name.items(), key=place))


def group_records(records: Sequence[Record], reported: Iterable[str] = ()) -> list[RecordGroup]:
    """Return records by measure, task and setting, section by section; titles name the settings that differ."""
    made = []
    for name, of_measure in records_by_measure(records).items():
        measure, entry = measure_class(of_measure), registry.find(Kind.MEASURE, name)
        title = entry.title.lower() if entry else name
        for task in ordered_labels(of_measure, "task", lambda record: record.labels["task"]):
            of_task = [record for record in of_measure if record.labels["task"] == task]
            for setting, of_setting in records_by_setting(of_task, excluded_parameter=measure.observed).items():
                head = f"{title} ({setting})" if setting else title
                rows, variants = _split_variants(of_setting)
                made.append(RecordGroup(measure, head, task, rows, frozenset(reported), variants))
    return made


def _split_variants(records: Sequence[Record]) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """Return the records of rows, and those of a sweep over a defense that is a row by itself."""
    alone = {record.labels["defense"] for record in records if Kind.DEFENSE not in record.sweep}
    swept = [record.sweep.get(Kind.DEFENSE, {}).get("label") in alone for record in records]
    rows = tuple(record for record, is_variant in zip(records, swept, strict=True) if not is_variant)
    return rows, tuple(record for record, is_variant in zip(records, swept, strict=True) if is_variant)


def records_by_setting(records: Sequence[Record], *, excluded_parameter: str = "") -> dict[str, list[Record]]:
    """Return records by those parameters of their measure that differ, as text."""
    varied = varied_parameters(records, excluded_parameter)
    by_setting: dict[str, list[Record]] = {}
    # Numbers in ascending order, whatever the order of the records.
    for record in sorted(
        records, key=lambda record: [_numbers_first_key(measure_parameters(record).get(name)) for name in varied]
    ):
        setting = ", ".join(f"{name} = {measure_parameters(record).get(name)}" for name in varied)
        by_setting.setdefault(setting, []).append(record)
    return by_setting


def varied_parameters(records: Sequence[Record], *leaving_out: str) -> list[str]:
    """Return the parameters of a measure that differ among its records."""
    all_parameters = [measure_parameters(record) for record in records]
    names = dict.fromkeys(name for parameters in all_parameters for name in parameters if name not in leaving_out)
    return [name for name in names if len({str(parameters.get(name)) for parameters in all_parameters}) > 1]


def ordered_labels(records: Sequence[Record], kind: str, label_of: Callable[[Record], str]) -> list[str]:
    """Return labels in the order of the records, those of a sweep by their values."""
    places: dict[str, tuple[int, float, int]] = {}
    first: dict[str, int] = {}
    for place, record in enumerate(records):
        swept = record.sweep.get(kind)
        start = first.setdefault(swept["label"] if swept else label_of(record), place)
        places.setdefault(label_of(record), (start, swept["value"] if swept else 0.0, place))
    return sorted(places, key=lambda name: places[name])


def attack_kind(record: Record) -> str:
    """Return the kind of a record's attack, or an empty text where it has none."""
    return next((kind for kind in (Kind.ATTACK, Kind.PRIVACY_ATTACK) if kind in record.configuration), "")


def attack_label(record: Record) -> str:
    """Return the label of a record's attack, or an empty text."""
    return record.labels.get(attack_kind(record), "")


def needs_root_examples(record: Record) -> bool:
    """Return whether the rule of a record needs examples at the server; False if its plugin is not loaded."""
    entry = registry.find(Kind.RULE, record.configuration["defense"]["rule"]["name"])
    return entry is not None and entry.root_update


def unlabelled_parameters(record: Record) -> dict[str, tuple[Any, Any]]:
    """Return parameters of a defense that differ from their defaults, with these, where its label does not say so.

    The number of attackers f is left out: it describes the setting.
    """
    defense = record.configuration["defense"]
    if record.labels["defense"] != defense_name(defense):
        return {}
    changed = {}
    for part in defense_parts(defense):
        entry = registry.find(part.kind, part.name)
        for parameter in entry.parameters if entry else ():
            value = part.parameters.get(parameter.name, parameter.default)
            if parameter.name != "f" and value != parameter.default:
                changed[parameter.name] = value, parameter.default
    return changed


def _plugin_name(record: Record, kind: str) -> str:
    return str(record.configuration[kind]["name"]) if kind else ""


def _numbers_first_key(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return not number, float(value) if number else 0.0, str(value)


# The strongest of several


def attack_runs_by_name(
    group: RecordGroup, defense: str, attacks: Sequence[str], observations: Sequence[str]
) -> dict[str, SeedRuns]:
    """Return these attacks by these observations on a defense, under the shortest names that distinguish them."""
    runs_of = {}
    for observation, attack in itertools.product(observations, attacks):
        by_deviation = {
            deviation: row
            for deviation, row in group.rows[defense].items()
            if (row, attack, observation) in group.records_by_cell
        }
        for deviation, row in by_deviation.items():
            named = ((deviation, by_deviation), (attack, attacks), (observation, observations))
            runs_of[", ".join(name for name, several in named if name and len(several) > 1)] = group.runs(
                row, attack, observation
            )
    return runs_of

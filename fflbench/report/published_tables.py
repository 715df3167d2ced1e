"""Tables of measured results beside the figures that papers publish, and how far both rank methods alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fflbench import registry
from fflbench.measures import published_results
from fflbench.measures.published_results import PublishedFigure, PublishedPaper
from fflbench.metrics import Metric
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report.metric_tables import NO_ATTACK_ROW
from fflbench.report.record_groups import (
    NO_ATTACK,
    SeedRuns,
    attack_kind,
    attack_label,
    deviation_label,
    measure_class,
    measure_parameters,
    ordered_labels,
    records_by_setting,
    row_label,
)
from fflbench.report.table_model import Column, FilledColumn, Table, TableCell, round_to_twelve_digits
from fflbench.safe_texts import slug

UPDATES = "updates"
"""Parameter of measures that tables of papers have rows for."""
ORDER = "order"
"""Unit of figures that are orders of growth."""
PAPERS_VALUE = "_paper"
"""End of the name of a column with values of a paper."""
ROWS_TO_RANK = 3
"""Least number of different figures for which a rank correlation is shown."""


def record_value(record: Record, path: str) -> float | None:
    """Return a metric or a fact of a record, or under `last.` a value of its history's last item."""
    value: Any = record.metrics.get(path)
    if path not in record.metrics:
        value = record.facts | {"last": record.history[-1] if record.history else {}}
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def attack_name(record: Record) -> str:
    """Return the registered name of a record's attack, or an empty text."""
    kind = attack_kind(record)
    return str(record.configuration[kind]["name"]) if kind else ""


def differences_from_paper(paper: PublishedPaper, records: Iterable[Record]) -> list[str]:
    """Return parameters of records' tasks and attacks that are not the paper's, as in "rounds = 10 instead of 100"."""
    found: dict[str, None] = {}
    for record in records:
        kind, task = attack_kind(record), record.configuration["task"]
        parts = [(Kind.TASK, task, paper.settings.get(task["name"], {}), paper.open_parameters)]
        if kind and attack_name(record) != NO_ATTACK:
            stated = paper.attacks.get(task["name"], {}).get(attack_name(record), {})
            parts.append((Kind(kind), record.configuration[kind], stated, ()))
        for part_kind, part, stated, ignored in parts:
            for name, (value, expected) in _changed_parameters(part_kind, part, stated).items():
                if name not in ignored:
                    found[f"{name} = {_short(value)} instead of {_short(expected)}"] = None
    return list(found)


def open_choices(paper: PublishedPaper, record: Record) -> list[str]:
    """Return the parameters of a record's task that the paper leaves open and that are not the default."""
    changed = _changed_parameters(Kind.TASK, record.configuration["task"], {})
    return [f"{name} = {_short(changed[name][0])}" for name in paper.open_parameters if name in changed]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _changed_parameters(
    kind: Kind, part: Mapping[str, Any], stated: Mapping[str, Any]
) -> dict[str, tuple[object, object]]:
    """Return values that differ from those that a paper states, or else from the defaults; with what they should be."""
    entry = registry.find(kind, part["name"])
    # The defaults of attacks are not those of a task.
    defaults = {parameter.name: parameter.default for parameter in entry.parameters} if entry else {}
    expected = (defaults if kind is Kind.TASK else {}) | dict(stated)
    return {
        name: (value, expected[name])
        for name, value in part["parameters"].items()
        if name in expected and value != expected[name]
    }


def tables_beside_papers(records: Sequence[Record]) -> Iterable[Table]:
    """Return one table per task, setting and published table, from records of one measure; and of rank correlations."""
    for task in ordered_labels(records, "task", lambda record: record.labels["task"]):
        of_task = [record for record in records if record.labels["task"] == task]
        for setting, of_setting in records_by_setting(of_task, excluded_parameter=UPDATES).items():
            heading = f"{task} ({setting})" if setting else task
            compared = [
                each
                for paper in published_results.papers()
                for label in paper.tables
                for each in _comparisons(paper, label, heading, of_setting)
            ]
            yield from (each.table() for each in compared)
            if ranks := [row for each in compared for row in each.rank_correlations()]:
                yield _rank_table(heading, compared[0].section, ranks)


Key = tuple[str, ...]
"""Key of a row: its label, after the number of updates if the paper has it."""


@dataclass(frozen=True)
class _ComparedRow:
    """Row with published figures by metric, and the records behind our values."""

    figures: dict[str, float]
    runs: SeedRuns
    defense: str
    is_attacked: bool


@dataclass(frozen=True)
class _Comparison:
    """Measured and published values of one published table, for one task, setting and attack."""

    paper: PublishedPaper
    label: str
    heading: str
    records: Sequence[Record]
    metrics: dict[str, Metric]
    rows: dict[Key, _ComparedRow]

    @property
    def section(self) -> str:
        """Section of the records' measure."""
        return measure_class(self.records).section

    def table(self) -> Table:
        """Return the table: our value, the paper's and the difference of each metric."""
        differing = differences_from_paper(self.paper, self.records)
        reduced = f" (reduced: {', '.join(differing)})" if differing else ""
        chosen = open_choices(self.paper, self.records[0])
        elsewhere = measure_class(self.records).alone
        return Table.from_columns(
            [each for name in self.metrics for each in self._columns(name)],
            rows=self.rows,
            defense=lambda key: self.rows[key].defense,
            name=slug(f"paper-{self.heading}-{self.label.partition(':')[2]}"),
            title=f"{self.heading}: {self.paper.tables[self.label]}, beside the paper's{reduced}",
            section=self.section,
            keys=(UPDATES, "defense") if len(next(iter(self.rows))) > 1 else ("defense",),
            notes=(
                f"The paper: {self.paper.citation}.",
                *([f"Where the paper says nothing: {', '.join(chosen)}."] if chosen else []),
                *(["The paper's seconds are from another machine."] if elsewhere else []),
            ),
        )

    def _columns(self, name: str) -> list[FilledColumn]:
        seeds = {record.seed for record in self.records}
        metric = self.metrics[name]
        ours = Column.from_metric(metric, higher_is_better=None)
        paper = Column.from_metric(
            metric, name=name + PAPERS_VALUE, title="the paper's", meaning="The paper's figure.", higher_is_better=None
        )
        points = metric.unit == "%"
        difference = ours.model_copy(
            update={
                "name": f"{name}_difference",
                "title": "difference, points" if points else paper.title.replace("the paper's", "difference"),
                "meaning": f"Our value less the paper's{', in percentage points' * points}.",
                "signed": True,
            }
        )
        own = {key: row.runs.cell(metric, ours, seeds) for key, row in self.rows.items()}
        printed = {key: row.figures[name] for key, row in self.rows.items() if name in row.figures}
        differences = {
            key: TableCell(mean=round_to_twelve_digits(mean - value), records=own[key].records)
            for key, value in printed.items()
            if (mean := own[key].mean) is not None
        }
        return [
            FilledColumn(ours, own),
            FilledColumn(paper, {key: TableCell(mean=value) for key, value in printed.items()}),
            FilledColumn(difference, differences),
        ]

    def rank_correlations(self) -> Iterable["_RankCorrelation"]:
        """Yield the rank correlations of all methods under attack, by number of updates and metric."""
        for updates in dict.fromkeys(key[:-1] for key in self.rows):
            rows = [row for key, row in self.rows.items() if key[:-1] == updates and row.is_attacked]
            where = ", ".join([self.paper.tables[self.label], *(f"{n} updates" for n in updates)])
            for name, metric in self.metrics.items():
                pairs = [
                    (fmean(values), row.figures[name])
                    for row in rows
                    if name in row.figures and (values := row.runs.values(name).values())
                ]
                ours, printed = map(set, zip(*pairs, strict=True)) if pairs else (set(), set())
                if len(printed) >= ROWS_TO_RANK and len(ours) > 1:
                    behind = [record for row in rows for record in row.runs.records.values()]
                    yield _RankCorrelation((where, metric.title), pairs, behind)


@dataclass(frozen=True)
class _RankCorrelation:
    """Means and published figures of the same methods."""

    key: Key
    pairs: Sequence[tuple[float, float]]
    records: Sequence[Record]

    @property
    def tau(self) -> float:
        """Kendall's tau-b."""
        # Only here: scipy.stats takes a second to import.
        from scipy.stats import kendalltau

        return round_to_twelve_digits(float(kendalltau(*zip(*self.pairs, strict=True)).statistic))


def _comparisons(paper: PublishedPaper, label: str, heading: str, records: Sequence[Record]) -> Iterable[_Comparison]:
    """Yield the comparison with a published table, for each label of its attack."""
    task, measure = records[0].configuration["task"]["name"], records[0].measure
    figures = [
        figure
        for figure in paper.figures
        if (figure.table, figure.task, figure.measure) == (label, task, measure) and figure.unit != ORDER
    ]
    attack = next((figure.attack for figure in figures if figure.attack != NO_ATTACK), "")
    labels = dict.fromkeys(attack_label(record) for record in records if attack_name(record) == attack)
    for name in labels if figures else ():
        own = [record for record in records if attack_label(record) == name or attack_name(record) == NO_ATTACK]
        several = f"{heading}, {name}" if len(labels) > 1 else heading
        metrics = {figure.metric: _metric(figure, own) for figure in figures}
        if rows := _compared_rows(figures, own):
            yield _Comparison(paper, label, several, own, metrics, rows)


def _metric(figure: PublishedFigure, records: Sequence[Record]) -> Metric:
    declared = next((metric for metric in measure_class(records).metrics if metric.name == figure.metric), None)
    return declared or Metric(figure.metric, figure.column, f"{figure.column}.", unit=figure.unit, digits=4)


def _compared_rows(figures: Sequence[PublishedFigure], records: Sequence[Record]) -> dict[Key, _ComparedRow]:
    """Return the rows of a published table that there are records of."""
    names = {figure.metric for figure in figures}
    attacked = next(record for record in records if attack_name(record) != NO_ATTACK)
    rows: dict[Key, _ComparedRow] = {}
    for figure in figures:
        by_key: dict[Key, list[Record]] = {}
        for record in (record for record in records if _is_figure_of(figure, record)):
            clean = figure.attack == NO_ATTACK
            label = row_label(record) + NO_ATTACK_ROW * clean
            # Facts that the table has figures of become metrics.
            values = {name: record_value(record, name) for name in names}
            scored = record.model_copy(update={"metrics": record.metrics | values})
            by_key.setdefault((str(figure.updates), label) if figure.updates else (label,), []).append(
                measure_class(records).score_clean_for_attack(scored, attacked) if clean else scored
            )
        for key, own in by_key.items():
            runs, defense = SeedRuns.from_records(own), own[0].labels["defense"]
            row = rows.setdefault(key, _ComparedRow({}, runs, defense, figure.attack != NO_ATTACK))
            row.figures[figure.metric] = figure.number
    return rows


def _is_figure_of(figure: PublishedFigure, record: Record) -> bool:
    return (
        (figure.defense, figure.deviation, figure.attack)
        == (record.defense, deviation_label(record), attack_name(record))
    ) and figure.updates in (None, measure_parameters(record).get(UPDATES))


def _rank_table(heading: str, section: str, ranks: Sequence[_RankCorrelation]) -> Table:
    methods = Column(name="methods", title="methods", meaning="Number of methods that are ranked.", digits=0)
    tau = Column(
        name="tau", title="Kendall's tau", meaning="Rank correlation (tau-b): 1 the same order, -1 the opposite one."
    )
    return Table.from_columns(
        [
            FilledColumn(methods, {rank.key: TableCell(mean=len(rank.pairs)) for rank in ranks}),
            FilledColumn(tau, {rank.key: TableCell(mean=rank.tau).with_records(rank.records) for rank in ranks}),
        ],
        defense=lambda key: "",
        name=slug(f"paper-{heading}-ranks"),
        title=f"{heading}: order of methods, ours against the paper's",
        section=section,
        keys=("table", "metric"),
        notes=("By means over seeds; whether methods differ by more than chance is in other tables.",),
    )

"""The robustness tables of the FFL paper, from records: methods by rows, metrics by columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fflbench.records.record import Record
from fflbench.report.flags import flags
from fflbench.report.statistics import Estimate, estimate, shown


@dataclass(frozen=True)
class Metric:
    """How a metric is shown."""

    name: str
    title: str
    lower_is_better: bool = False
    percent: bool = True

    def text(self, figure: Estimate) -> str:
        """A figure with its interval."""
        scale, digits = (100, 2) if self.percent else (1, 3)
        text = shown(figure.mean * scale, digits)
        return text if figure.half_width is None else f"{text} ± {shown(figure.half_width * scale, digits)}"


LOSS = Metric("test_loss", "test loss", lower_is_better=True, percent=False)
ACCURACY = Metric("accuracy", "accuracy %")
SOURCE = Metric("source_accuracy", "source accuracy %")
SUCCESS = Metric("attack_success_rate", "attack success %", lower_is_better=True)


@dataclass(frozen=True)
class Value:
    """One cell of a table: a figure, or why there is none."""

    estimate: Estimate | None
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Row:
    """One method."""

    label: str
    values: tuple[Value, ...]
    attacked: bool = True
    flags: tuple[str, ...] = ()
    """Warnings to its reader."""


@dataclass(frozen=True)
class Table:
    """What one attack does to every defense on one task."""

    task: str
    attack: str
    metrics: tuple[Metric, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """What stands above it."""
        return (
            f"{self.task} under {self.attack}" if any(row.attacked for row in self.rows) else f"{self.task}, no attack"
        )

    @property
    def notes(self) -> list[str]:
        """Notes below it: the flags of its rows."""
        rows: dict[str, list[str]] = {}
        for row in self.rows:
            for flag in row.flags:
                rows.setdefault(flag, []).append(row.label)
        return [f"{', '.join(labels)}: {flag}" for flag, labels in rows.items()]


def robustness(records: Sequence[Record]) -> list[Table]:
    """One table a task and attack, in the order of the records; its first row is FedAvg without attack."""
    tables = []
    for task in _labels(records, "task"):
        of_task = [record for record in records if record.labels["task"] == task]
        clean = [record for record in of_task if record.configuration["attack"]["name"] == "none"]
        for attack in _labels(of_task, "attack"):
            chosen = [record for record in of_task if record.labels["attack"] == attack]
            attacked = chosen[0].configuration["attack"]["name"] != "none"
            targeted = any(record.facts.get("targeted") for record in chosen)
            metrics = (LOSS, SOURCE, SUCCESS) if targeted else (LOSS, ACCURACY)
            rows = [_row(label, _of(chosen, label), metrics, attacked) for label in _labels(chosen, "defense")]
            plain = [record for record in clean if record.configuration["defense"]["name"] == "fedavg"] or clean
            baseline = plain[0].labels["defense"] if plain else ""
            if attacked and baseline:
                rows.insert(0, _row(f"{baseline} (no attack)", _of(clean, baseline), metrics, attacked=False))
            tables.append(Table(task, attack, metrics, _with_best(rows, metrics, attacked)))
    return tables


def _labels(records: Iterable[Record], kind: str) -> list[str]:
    return list(dict.fromkeys(record.labels[kind] for record in records))


def _of(records: Iterable[Record], defense: str) -> list[Record]:
    return [record for record in records if record.labels["defense"] == defense]


def _row(label: str, records: list[Record], metrics: tuple[Metric, ...], attacked: bool) -> Row:
    return Row(label, tuple(_value(records, metric) for metric in metrics), attacked, flags(records))


def _value(records: list[Record], metric: Metric) -> Value:
    """The mean over seeds; a seed that failed or diverged is counted, never left out in silence."""
    failed = sum(record.status == "failed" for record in records)
    diverged = sum(bool(record.metrics.get("diverged")) for record in records)
    found = [record.metrics.get(metric.name) for record in records]
    values = [value for value in found if isinstance(value, float | int)]
    notes = [
        f"{count} of {len(records)} {what}" for count, what in ((failed, "failed"), (diverged, "diverged")) if count
    ]
    if failed or diverged or not values:
        return Value(None, ", ".join(notes) or "none")
    return Value(estimate(values), "1 seed" if len(values) == 1 else "")


def _with_best(rows: list[Row], metrics: tuple[Metric, ...], attacked: bool) -> tuple[Row, ...]:
    """Mark the best mean of each column, and all that look the same as printed."""
    best = []
    for place, metric in enumerate(metrics):
        means = [row.values[place].estimate for row in rows if row.attacked is attacked]
        figures = [figure.mean for figure in means if figure]
        leading = (min if metric.lower_is_better else max)(figures, default=None)
        best.append("" if leading is None else metric.text(Estimate(leading, None, 1)))

    def mark(row: Row) -> Row:
        values = tuple(
            Value(value.estimate, value.note, best=True)
            if value.estimate
            and row.attacked is attacked
            and metric.text(Estimate(value.estimate.mean, None, 1)) == best[place]
            else value
            for place, (metric, value) in enumerate(zip(metrics, row.values, strict=True))
        )
        return Row(row.label, values, row.attacked, row.flags)

    return tuple(mark(row) for row in rows)

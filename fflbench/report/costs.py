"""The FFL paper's tables of runtime and communication from records, its own figures beside ours."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, cast

from fflbench.cost import paper
from fflbench.cost.network import Network, brea
from fflbench.measures import readable_bytes
from fflbench.records.record import Record
from fflbench.report.texts import csv_text

KNOWN = ("runtime", "communication", "reconstruction", "partner", "membership", "property")
"""Measures that have tables of their own."""

FROM = 1_000_000
"""Columns from which on the growth with their number is fitted: below, fixed costs hide it."""


@dataclass(frozen=True)
class Sheet:
    """A table of texts, with what a reader must know to read it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def sheets(records: Sequence[Record]) -> list[Sheet]:
    """All tables of a suite that measures cost."""
    done = [record for record in records if record.status == "done"]
    found = [*_runtime(_of("runtime", done)), *_communication(_of("communication", done))]
    found += _plain([record for record in done if record.configuration["measure"]["name"] not in KNOWN])
    failed = tuple(
        (record.labels["task"], record.labels["measure"], record.labels["defense"], record.reason)
        for record in records
        if record.status == "failed"
    )
    return found + ([Sheet("Cells that failed", ("task", "measure", "defense", "why"), failed)] if failed else [])


def to_csv(records: Iterable[Record]) -> str:
    """A line a metric."""
    rows: list[list[Any]] = [["id", "task", "measure", "attack", "defense", "seed", "status", "metric", "value"]]
    for record in records:
        labels = (record.labels.get(kind, "") for kind in ("task", "measure", "privacy-attack", "defense"))
        start = [record.id, *labels, record.configuration["seed"], record.status]
        rows += [[*start, name, value] for name, value in record.metrics.items() or [("", "")]]
    return csv_text(rows)


def _of(measure: str, records: Iterable[Record]) -> list[Record]:
    return [record for record in records if record.configuration.get("measure", {}).get("name") == measure]


def _told(record: Record) -> dict[str, Any]:
    told: dict[str, Any] = record.configuration["measure"]["parameters"]
    return told


def _plain(records: list[Record]) -> Iterable[Sheet]:
    """The metrics as they are, of measures that have no table of their own."""
    for name in dict.fromkeys(record.configuration["measure"]["name"] for record in records):
        rows = tuple(
            (*(record.labels[kind] for kind in ("task", "measure", "defense")), metric, str(value))
            for record in _of(name, records)
            for metric, value in record.metrics.items()
        )
        yield Sheet(name, ("task", "measure", "defense", "metric", "value"), rows)


# Runtime


def _runtime(records: list[Record]) -> Iterable[Sheet]:
    for title, found in _grouped(records).items():
        rows = sorted(found, key=lambda record: _told(record)["updates"])
        yield Sheet(
            f"{title}: seconds a round takes, {rows[0].facts['columns']:,} columns",
            (
                "updates",
                "defense",
                "server: decryption",
                "paper",
                "server: aggregation",
                "paper",
                "participant: mixing",
                "paper",
                "peak memory",
            ),
            tuple(_runtime_row(record) for record in rows),
            (
                f"Mean ± standard deviation of {_runs(rows)} after one to warm up, {_machine(rows)}. Columns headed "
                "paper are the paper's own figures, from another machine.",
                "Peak memory is the server's while it aggregates, all updates included; also in times of the updates.",
            ),
        )
    growth = exponents(records)
    if growth:
        yield Sheet(
            f"How the server's time grows: {largest(records)[0]}",
            ("defense", "exponent in n", "exponent in D", "complexity the paper states"),
            tuple(
                (
                    label,
                    *(f"{value:.2f}" if value is not None else "" for value in fitted),
                    paper.COMPLEXITY.get(label, ""),
                )
                for label, fitted in growth.items()
            ),
            (
                "Fitted on logarithms of decryption plus aggregation, on the largest model: in n at its full length, "
                "in D from 1M columns on at the largest n, its last layer as it is. scaling.svg shows the points.",
            ),
        )


def _grouped(records: Iterable[Record]) -> dict[str, list[Record]]:
    """What belongs into one table, by its title: one task, one seed, and one setting of all but the updates."""
    settings = [{"seed": record.configuration["seed"]} | _told(record) for record in records]
    varied = [
        name
        for name in dict.fromkeys(name for setting in settings for name in setting)
        if name != "updates" and len({str(setting.get(name)) for setting in settings}) > 1
    ]
    found: dict[str, list[Record]] = {}
    for record, setting in zip(records, settings, strict=True):
        title = ", ".join([record.labels["task"], *(f"{name} = {setting.get(name)}" for name in varied)])
        found.setdefault(title, []).append(record)
    return found


def largest(records: Iterable[Record]) -> tuple[str, list[Record]]:
    """The table of the largest model, with its title: where growth shows."""
    return max(_grouped(_of("runtime", records)).items(), key=lambda item: _length(item[1][0]), default=("", []))


def _length(record: Record) -> int:
    columns: int = record.facts["columns"]
    return columns


def _runtime_row(record: Record) -> tuple[str, ...]:
    n, found = _told(record)["updates"], cast(dict[str, float], record.metrics)
    name = record.configuration["defense"]["name"]
    papers = paper.RUNTIME.get((record.configuration["task"]["name"], n, name))
    cells = [str(n), record.labels["defense"]]
    for part in ("decryption", "aggregation", "mixing"):
        mean, spread = found[f"{part}_seconds"], found[f"{part}_spread"]
        cells += [
            _with_spread(mean, spread if record.facts["timed_runs"] > 1 else None),
            f"{getattr(papers, part):g}" if papers else "",
        ]
    peak = found["peak_bytes"]
    return (*cells, f"{readable_bytes(peak)}, {peak / record.facts['updates_bytes']:.2f}x")


def points(records: Iterable[Record]) -> dict[str, dict[tuple[int, int], float]]:
    """On the largest model, by defense, number of updates and columns: the server's mean seconds."""
    found: dict[str, dict[tuple[int, int], list[float]]] = {}
    for record in largest([record for record in records if record.status == "done"])[1]:
        n = _told(record)["updates"]
        for told in record.history:
            place = found.setdefault(record.labels["defense"], {}).setdefault((n, told["columns"]), [])
            place.append(told["decryption"] + told["aggregation"])
    return {name: {key: fmean(values) for key, values in of.items()} for name, of in found.items()}


def exponents(records: Iterable[Record]) -> dict[str, tuple[float | None, float | None]]:
    """By defense: how the server's time grows with the updates and with their length, where there are points enough."""
    found = {}
    measured = points(records)
    for name in measured:
        in_n, in_d = lines(measured, name)
        if in_n or in_d:
            found[name] = (_slope(in_n), _slope(in_d))
    return found


def lines(measured: dict[str, dict[tuple[int, int], float]], name: str) -> tuple[dict[int, float], dict[int, float]]:
    """A defense's seconds by n at the most columns, and by columns from 1M on at the largest n that any defense has."""
    sizes = [key for of in measured.values() for key in of if key[1] >= FROM]
    most, widest = max((n for n, _ in sizes), default=0), max((d for _, d in sizes), default=0)
    large = {key: seconds for key, seconds in measured[name].items() if key[1] >= FROM}
    in_n = {n: seconds for (n, d), seconds in sorted(large.items()) if d == widest}
    in_d = {d: seconds for (n, d), seconds in sorted(large.items()) if n == most}
    return in_n, in_d


def _slope(seconds: dict[int, float]) -> float | None:
    """The exponent that fits best, by least squares on logarithms; times too short to be measured say nothing."""
    timed = {size: value for size, value in seconds.items() if value > 0}
    if len(timed) < 2:
        return None
    x, y = [math.log(size) for size in timed], [math.log(value) for value in timed.values()]
    middle = fmean(x)
    return sum((a - middle) * b for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def _runs(records: Sequence[Record]) -> str:
    counts = sorted({record.facts["timed_runs"] for record in records})
    return f"{counts[0]} to {counts[-1]} runs" if len(counts) > 1 else f"{counts[0]} run{'s' * (counts[0] > 1)}"


def _machine(records: Sequence[Record]) -> str:
    threads = _told(records[0])["threads"]
    processors = dict.fromkeys(str(record.manifest.get("processor")) for record in records)
    return f"{threads} thread{'s' * (threads > 1)} of {' and '.join(processors)}"


def _with_spread(mean: float, spread: float | None) -> str:
    if not mean:
        return "0"
    return _short(mean) if spread is None else f"{_short(mean)} ± {_short(spread, 2)}"


def _short(seconds: float, digits: int = 3) -> str:
    """A few digits, never in powers of ten."""
    return f"{seconds:.{max(0, digits - 1 - math.floor(math.log10(seconds)))}f}" if seconds > 0 else "0"


# Communication


def _communication(records: list[Record]) -> Iterable[Sheet]:
    for title, of_task in _grouped(records).items():
        told = _told(of_task[0])
        network = Network(told["download"], told["upload"], told["latency"])
        rows = [_communication_row(record) for record in of_task]
        first = of_task[0]
        formula = brea(network, first.facts["model_bytes_the_papers_way"], told["participants"])
        printed = _printed(first, "brea")
        rows.append(("BREA (computed)", *_parts(vars(formula) | {"total": formula.total}), printed, "", "", "", ""))
        rounded = [
            f"{record.labels['defense']} {record.facts['seconds']['rounded']['total']:.4f} s" for record in of_task
        ]
        yield Sheet(
            f"{title}: seconds a round's messages take a participant",
            (
                "method",
                "paper's way: server",
                "between",
                "latency",
                "total",
                "total the paper prints",
                "ledger, before MACs and framing",
                "ledger, as sent",
                "megabytes as sent",
                "server, gigabytes",
            ),
            tuple(rows),
            (
                f"Download {network.download:g} Mbps, upload {network.upload:g} Mbps, latency {network.latency:g} ms. "
                f"With {told['participants']:,} participants the server sends and receives so many gigabytes, and BREA "
                "takes so long by the paper's formula: it is computed, nothing of it was run.",
                "The paper rounds a model to 0.0001 MB and charges four latencies between partners. The ledger counts "
                "the messages that were sent, of which there are three; before MACs and framing it counts parameters "
                "alone, as sent also buffers such as running statistics. With the paper's rounding the ledger gives: "
                f"{', '.join(rounded)}.",
            ),
        )
    if records:
        yield _by_kind(records)


def _communication_row(record: Record) -> tuple[str, ...]:
    found, sent = record.facts["seconds"], cast(float, record.metrics["bytes"])
    return (
        record.labels["defense"],
        *_parts(found["papers_way"]),
        _printed(record, record.configuration["defense"]["name"]),
        f"{found['parameters']['total']:.4f}",
        f"{found['sent']['total']:.4f}",
        f"{sent / 1e6:.4f}",
        f"{cast(float, record.metrics['server_bytes']) / 1e9:,.1f}",
    )


def _parts(found: dict[str, float]) -> tuple[str, ...]:
    return tuple(f"{found[part]:,.4f}" for part in ("server", "between", "latency", "total"))


def _printed(record: Record, name: str) -> str:
    printed = paper.COMMUNICATION.get((record.configuration["task"]["name"], name))
    return f"{printed.total:,.4f}" if printed else ""


def _by_kind(records: list[Record]) -> Sheet:
    rows = [
        (record.labels["task"], record.labels["defense"], way, kind, f"{size:,.0f}")
        for record in records
        for way, kinds in record.facts["bytes_per_participant"].items()
        for kind, size in kinds.items()
    ]
    return Sheet(
        "Bytes a participant sends or receives in a round, by kind",
        ("task", "defense", "way", "kind", "bytes"),
        tuple(rows),
        ("Between participants, bytes count for both, who send and who receive.",),
    )

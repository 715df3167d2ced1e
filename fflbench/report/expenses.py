"""The cost tables of a leaderboard: seconds, memory and bytes of a round."""

from collections.abc import Iterable, Sequence

from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.report import leaks
from fflbench.report.panels import Cell, Column, Panel, Row
from fflbench.report.statistics import estimate


def measured(records: Iterable[Record], name: str) -> list[Record]:
    """Finished records of a measure."""
    return [
        record
        for record in records
        if record.status == "done" and record.configuration.get("measure", {}).get("name") == name
    ]


RUNTIME = {
    "server": Column(
        name="server_seconds",
        title="server, s",
        meaning="Seconds the server takes for a round: decryption, reputation and aggregation.",
        digits=5,
        higher_is_better=False,
    ),
    "participant": Column(
        name="participant_seconds",
        title="participant, s",
        meaning="Seconds one participant takes for its exchange.",
        digits=5,
        higher_is_better=False,
    ),
    "memory": Column(
        name="peak_megabytes",
        title="peak memory, MB",
        meaning="What the server needs at most, updates included.",
        digits=1,
        higher_is_better=False,
    ),
}
KILOBYTES = Column(
    name="kilobytes",
    title="kB a participant",
    meaning="Bytes a participant sends and receives in a round, as sent.",
    digits=1,
    higher_is_better=False,
)


WAYS = {"up": "to the server", "down": "from the server", "between": "between partners"}
KINDS = {
    "power": "A partner's half of a Diffie-Hellman key agreement",
    "sealed seed": "The seed of a pad, sealed for the server",
    "masked vector": "Updates under one-time pads",
    "mixed update": "What is submitted after an exchange",
    "update": "What is submitted as it is",
    "global model": "The global model",
    "feedback": "What the server tells of a score",
    "mac": "Authentication codes",
    "framing": "Headers and lengths",
}
"""What kinds of messages are."""


def runtime(records: Sequence[Record]) -> Iterable[Panel]:
    """What a round takes in time and memory."""
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in measured(records, "runtime"):
        key = record.labels["task"], leaks.told(record)["updates"]
        groups.setdefault(key, []).append(record)
    for (task, updates), of_group in groups.items():
        defenses = list(dict.fromkeys(record.labels["defense"] for record in of_group))
        yield Panel(
            name=slug(f"runtime-{task}-{updates}"),
            title=f"{task}: what a round of {updates} updates costs",
            section="cost",
            columns=tuple(RUNTIME.values()),
            rows=tuple(Row(label=name, cells=runtime_cells(of_group, name)) for name in defenses),
            notes=(f"Measured on {_machines(of_group)}; figures of other machines cannot be compared with these.",),
        )


def runtime_cells(records: Sequence[Record], defense: str) -> tuple[Cell, ...]:
    """Seconds of server and participant, and peak memory, of one defense."""
    own = [record for record in records if record.labels["defense"] == defense]
    if not own:
        return (Cell(), Cell(), Cell())
    return (
        _mean(leaks.values(own, "seconds")).behind(own),
        _mean(leaks.values(own, "mixing_seconds")).behind(own),
        _mean([value / 1e6 for value in leaks.values(own, "peak_bytes")]).behind(own),
    )


def _machines(records: Sequence[Record]) -> str:
    return " and ".join(dict.fromkeys(str(record.manifest.get("processor")) for record in records))


def sent(records: Sequence[Record]) -> Iterable[Panel]:
    """What a round sends, by kind of message."""
    by_task: dict[str, list[Record]] = {}
    for record in measured(records, "communication"):
        by_task.setdefault(record.labels["task"], []).append(record)
    for task, of_task in by_task.items():
        kinds = list(
            dict.fromkeys(
                (way, kind)
                for record in of_task
                for way, sizes in record.facts["bytes_per_participant"].items()
                for kind in sizes
            )
        )
        columns = [KILOBYTES]
        columns += [
            Column(
                name=f"{way} {kind}",
                title=f"{WAYS.get(way, way)}: {kind}, bytes",
                meaning=f"{KINDS.get(kind, kind)}, {WAYS.get(way, way)}, in bytes.",
                digits=0,
            )
            for way, kind in kinds
        ]
        rows = []
        for record in {record.labels["defense"]: record for record in of_task}.values():
            sizes = record.facts["bytes_per_participant"]
            told = [sizes.get(way, {}).get(kind) for way, kind in kinds]
            cells = [exact(float(record.metrics["bytes"]) / 1e3)]  # type: ignore[arg-type]
            cells += [Cell() if size is None else exact(float(size)) for size in told]
            rows.append(Row(label=record.labels["defense"], cells=tuple(cell.behind([record]) for cell in cells)))
        yield Panel(
            name=slug(f"bytes-{task}"),
            title=f"{task}: bytes a participant sends and receives in a round, by kind",
            section="cost",
            columns=tuple(columns),
            rows=tuple(rows),
            notes=("Counted from real messages, not estimated.",),
        )


def exact(value: float) -> Cell:
    """A figure that has no spread."""
    return Cell(mean=value) if value else Cell(text="0")


def _mean(values: Sequence[float]) -> Cell:
    """A figure that is itself a mean over repeated runs; over seeds, if there are several."""
    return Cell.of(estimate(values)) if len(values) > 1 else exact(values[0])

"""A whole leaderboard from records: robustness, privacy and cost, and one row a defense that joins the three."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.records.manifest import RESULTS_VERSION
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report import leaks, robust
from fflbench.report.panels import Board, Cell, Column, Panel, Row
from fflbench.report.statistics import estimate, leaders, worst

ALONE = ["server view"]
"""What a server knows without anybody's help."""


def board(suite: str, records: Sequence[Record], reported: Mapping[str, str] | None = None) -> Board:
    """Everything; `reported` names records that came from outside and that nobody has run again, with their origin."""
    title, description = _about(suite)
    tasks = robust.tasks(records)
    panels = [*_overall(tasks, records)]
    for task in tasks:
        panels += robust.panels(task)
    panels += [*_privacy(records), *_partners(records), *_runtime(records), *_bytes(records)]
    return Board(
        suite=suite,
        title=title,
        description=description,
        panels=tuple(_with_origin(panel, records, reported or {}) for panel in panels),
        flags=tuple(_flags(tasks, records)),
    )


def _about(suite: str) -> tuple[str, str]:
    try:
        entry = registry.get(Kind.SUITE, suite)
    except FflbenchError:
        return suite, ""
    return entry.title, entry.summary


def _with_origin(panel: Panel, records: Sequence[Record], reported: Mapping[str, str]) -> Panel:
    """Rows of which some record came from outside say so."""
    origin: dict[str, str] = {}
    for record in records:
        if record.id in reported:
            origin.setdefault(record.labels["defense"], reported[record.id])
    rows = tuple(
        row.model_copy(update={"flags": (*row.flags, origin[row.label])}) if row.label in origin else row
        for row in panel.rows
    )
    return panel.model_copy(update={"rows": rows})


# Flags


def _flags(tasks: Sequence[robust.Task], records: Sequence[Record]) -> Iterable[str]:
    for task in tasks:
        yield from robust.weaker_than_control(task)
        if task.attacks and not any("noise-control" in attack for attack in task.attacks):
            yield f"{task.name}: noise-control was not run, so weak attacks cannot be told from strong ones"
    versions = {(entry.kind, entry.name): entry.version for kind in Kind for entry in registry.entries(kind)}
    stale = [str(record) for record in records if _stale(record, versions)]
    if stale:
        yield f"{_count(len(stale), 'record')} of older results versions than this fflbench has: {_some(stale)}"
    failed = [f"{record}: {record.reason}" for record in records if record.status == "failed"]
    if failed:
        yield f"{_count(len(failed), 'cell')} failed: {_some(failed)}"
    for what in ("fflbench", "libraries", "processor", "python"):
        told = Counter(str(record.manifest.get(what)) for record in records)
        if len(told) > 1:
            usual = told.most_common(1)[0][0]
            other = [str(record) for record in records if str(record.manifest.get(what)) != usual]
            yield f"{_count(len(other), 'record')} made with another {what} than the others: {_some(other)}"


def _stale(record: Record, versions: Mapping[tuple[Kind, str], int]) -> bool:
    """Whether the code that decides its result has changed since; plugins that are not here cannot tell."""
    told = record.manifest.get("results")
    if not isinstance(told, dict):
        return True
    if told.get("core") != RESULTS_VERSION:
        return True
    chosen = {(kind, record.configuration[kind]["name"]) for kind in Kind if kind in record.configuration}
    return any(told.get(kind.value) != versions[kind, name] for kind, name in chosen if (kind, name) in versions)


def _some(texts: Sequence[str]) -> str:
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# Privacy


def leakage(records: Sequence[Record], defense: str, *, alone: bool | None = None) -> dict[int, float]:
    """By seed, the best that any attack and target made of a defense: decibels; of servers alone, or with help."""
    by_row: dict[tuple[str, str], dict[int, float]] = {}
    for record in records:
        chosen = alone is None or (record.facts["knows"] == ALONE) == alone
        psnr = record.metrics.get("psnr")
        if record.labels["defense"] == defense and chosen and isinstance(psnr, float | int):
            row = record.labels["privacy-attack"], _target(record)
            by_row.setdefault(row, {})[record.configuration["seed"]] = float(psnr)
    return worst(by_row.values(), highest=True)


def _privacy(records: Sequence[Record]) -> Iterable[Panel]:
    for number, (title, of_setting) in enumerate(leaks.settings(records).items(), start=1):
        targets = {_target(record): record.facts for record in reversed(of_setting)}
        order = [name for name in leaks.TARGET_ORDER if name in targets]
        columns = [_leak_column(name, targets[name]) for name in order]
        columns.append(
            Column(
                name="worst",
                title="worst known, dB",
                meaning="The best any attack made of it by any way of looking, of each seed; then the mean.",
                digits=1,
                higher_is_better=False,
            )
        )
        columns.append(
            Column(name="floor", title="floor, dB", meaning="What a random image of the same data gives.", digits=1)
        )
        defenses = list(dict.fromkeys(record.labels["defense"] for record in of_setting))
        figures: list[dict[str, dict[int, float]]] = [
            {name: leakage([r for r in of_setting if _target(r) == target], name) for name in defenses}
            for target in order
        ]
        figures.append({name: leakage(of_setting, name) for name in defenses})
        marks = leaders({name: values for name, values in figures[-1].items() if values}, highest=False)
        rows = []
        for name in defenses:
            cells = [Cell.of(estimate(list(of[name].values()))) if of[name] else Cell() for of in figures]
            cells[-1] = cells[-1].model_copy(update={"mark": marks.get(name, "")})
            own = [record for record in of_setting if record.labels["defense"] == name]
            cells.append(Cell.of(estimate(leaks.values(own, "floor_psnr"))))
            rows.append(Row(label=name, cells=tuple(cells), flags=_adaptive_flags(own)))
        attacks = list(dict.fromkeys(record.labels["privacy-attack"] for record in of_setting))
        yield Panel(
            name=f"privacy-{number}",
            title=title,
            section="privacy",
            columns=tuple(columns),
            rows=tuple(rows),
            notes=(
                f"Reconstruction by {', '.join(attacks)}: peak signal-to-noise ratio, the best attack of each seed; "
                "higher means that more came back, and what is near the floor tells nothing. Empty: makes no sense "
                "against that defense.",
            ),
        )


def _leak_column(target: str, facts: Mapping[str, Any]) -> Column:
    knows = " and ".join(str(item) for item in facts["knows"])
    return Column(
        name=target,
        title=f"{target} ({facts['caution']}), dB" if facts.get("caution") else f"{target}, dB",
        meaning=f"{facts['target']}. Must know: {knows}.",
        digits=1,
        higher_is_better=False,
    )


def _target(record: Record) -> str:
    return str(leaks.told(record)["target"])


def _adaptive_flags(records: Sequence[Record]) -> tuple[str, ...]:
    exchanges = any(record.facts["adaptive"] is not None for record in records)
    adapted = any(record.facts["adaptive"] for record in records)
    return ("no adaptive attack has been run against its exchange",) if exchanges and not adapted else ()


def _partners(records: Sequence[Record]) -> Iterable[Panel]:
    rows: dict[str, list[Record]] = {}
    for record in records:
        if record.status == "done" and record.configuration.get("measure", {}).get("name") == leaks.PARTNER:
            pads = leaks.told(record)["pads"]
            label = f"{record.labels['defense']}, pads {pads}, {record.labels['privacy-attack']}"
            rows.setdefault(f"{label} (demonstration)" if record.facts["demonstration"] else label, []).append(record)
    if rows:
        yield Panel(
            name="privacy-partner",
            title="What a curious partner learns of an exchange",
            section="privacy",
            columns=(
                Column(
                    name="recovered",
                    title="coordinates told %",
                    meaning="Of the partner's update, told right to the bit.",
                    percent=True,
                    higher_is_better=False,
                ),
                Column(
                    name="bit_accuracy",
                    title="bits right %",
                    meaning="Half is chance.",
                    percent=True,
                    higher_is_better=False,
                ),
            ),
            rows=tuple(
                Row(
                    label=label,
                    cells=tuple(
                        Cell.of(estimate(leaks.values(of_row, name))) for name in ("recovered", "bit_accuracy")
                    ),
                )
                for label, of_row in rows.items()
            ),
            notes=("Demonstrations are exchanges as they must not be, to show that the attacks work.",),
        )


# Cost


def _measured(records: Iterable[Record], name: str) -> list[Record]:
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


def _runtime(records: Sequence[Record]) -> Iterable[Panel]:
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in _measured(records, "runtime"):
        key = record.labels["task"], leaks.told(record)["updates"]
        groups.setdefault(key, []).append(record)
    for (task, updates), of_group in groups.items():
        defenses = list(dict.fromkeys(record.labels["defense"] for record in of_group))
        yield Panel(
            name=f"runtime-{task}-{updates}",
            title=f"{task}: what a round of {updates} updates costs",
            section="cost",
            columns=tuple(RUNTIME.values()),
            rows=tuple(Row(label=name, cells=_runtime_cells(of_group, name)) for name in defenses),
            notes=(f"Measured on {_machines(of_group)}; figures of other machines cannot be compared with these.",),
        )


def _runtime_cells(records: Sequence[Record], defense: str) -> tuple[Cell, ...]:
    own = [record for record in records if record.labels["defense"] == defense]
    if not own:
        return (Cell(), Cell(), Cell())
    return (
        _mean(leaks.values(own, "seconds")),
        _mean(leaks.values(own, "mixing_seconds")),
        _mean([value / 1e6 for value in leaks.values(own, "peak_bytes")]),
    )


def _machines(records: Sequence[Record]) -> str:
    return " and ".join(dict.fromkeys(str(record.manifest.get("processor")) for record in records))


def _bytes(records: Sequence[Record]) -> Iterable[Panel]:
    by_task: dict[str, list[Record]] = {}
    for record in _measured(records, "communication"):
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
            Column(name=f"{way} {kind}", title=f"{way}: {kind}", meaning=f"Bytes of {kind}, {way}.", digits=0)
            for way, kind in kinds
        ]
        rows = []
        for record in {record.labels["defense"]: record for record in of_task}.values():
            sizes = record.facts["bytes_per_participant"]
            told = [sizes.get(way, {}).get(kind) for way, kind in kinds]
            cells = [_exact(float(record.metrics["bytes"]) / 1e3)]  # type: ignore[arg-type]
            cells += [Cell() if size is None else _exact(float(size)) for size in told]
            rows.append(Row(label=record.labels["defense"], cells=tuple(cells)))
        yield Panel(
            name=f"bytes-{task}",
            title=f"{task}: bytes a participant sends and receives in a round, by kind",
            section="cost",
            columns=tuple(columns),
            rows=tuple(rows),
            notes=("Counted from real messages, not estimated.",),
        )


def _exact(value: float) -> Cell:
    """A figure that has no spread."""
    return Cell(mean=value) if value else Cell(text="0")


def _mean(values: Sequence[float]) -> Cell:
    """A figure that is itself a mean over repeated runs; over seeds, if there are several."""
    return Cell.of(estimate(values)) if len(values) > 1 else _exact(values[0])


# All together


def _overall(tasks: Sequence[robust.Task], records: Sequence[Record]) -> Iterable[Panel]:
    settings = leaks.settings(records)
    rebuilt = next(iter(settings.values()), [])
    for task in tasks:
        summary = robust.summary(task)
        places = {column.name: place for place, column in enumerate(summary.columns)}
        targeted = [name for name in task.attacks if task.targeted[name]]
        excess = "worst_excess" if len(targeted) > 1 else targeted[0] if targeted else ""
        taken = [name for name in ("worst_accuracy", "clean_cost", excess) if name in places]
        columns = [summary.columns[places[name]] for name in taken]
        by_label = {row.label: row for row in summary.rows}
        others = [record.labels["defense"] for record in rebuilt]
        labels = list(dict.fromkeys([*by_label, *others]))
        lines: dict[str, list[Cell]] = {
            label: [
                by_label[label].cells[places[name]] if label in by_label else Cell(text="not run") for name in taken
            ]
            for label in labels
        }
        if rebuilt:
            columns += [
                _overall_leak("leak_alone", "leak, dB", "a server by itself", rebuilt),
                _overall_leak("leak_with_help", "leak with help, dB", "a server with an oracle or a traitor", rebuilt),
            ]
            helped = any(leakage(rebuilt, label, alone=False) for label in lines)
            columns = columns if helped else columns[:-1]
            for alone in (True, False) if helped else (True,):
                for label, cells in lines.items():
                    values = leakage(rebuilt, label, alone=alone)
                    cells.append(Cell.of(estimate(list(values.values()))) if values else Cell())
        runtime = [record for record in _measured(records, "runtime") if record.labels["task"] == task.name]
        if runtime:
            columns += RUNTIME.values()
            for label, cells in lines.items():
                cells += _runtime_cells(runtime, label)
        sent = [record for record in _measured(records, "communication") if record.labels["task"] == task.name]
        if sent:
            columns.append(KILOBYTES)
            for label, cells in lines.items():
                found = leaks.values([record for record in sent if record.labels["defense"] == label], "bytes")
                cells.append(_exact(found[0] / 1e3) if found else Cell())
        flags = {
            label: (
                *(by_label[label].flags if label in by_label else ()),
                *_adaptive_flags([record for record in rebuilt if record.labels["defense"] == label]),
            )
            for label in labels
        }
        ranked = sorted(labels, key=lambda label: -(_first_mean(lines[label])))
        yield Panel(
            name=f"overall-{task.name}",
            title=f"{task.name}: robustness, privacy and cost",
            section="overall",
            columns=tuple(columns),
            rows=tuple(Row(label=label, cells=tuple(lines[label]), flags=flags[label]) for label in ranked),
            notes=_overall_notes(settings),
        )


def _overall_notes(settings: Mapping[str, Sequence[Record]]) -> tuple[str, ...]:
    told = "Sorted by the worst case over attacks, pointwise by seed."
    if settings:
        told += f" Leaks are reconstructions on {next(iter(settings))}: near the floor nothing comes back."
    return (told,)


def _overall_leak(name: str, title: str, who: str, records: Sequence[Record]) -> Column:
    floor = estimate(leaks.values(records, "floor_psnr")).mean
    return Column(
        name=name,
        title=title,
        meaning=f"The most that {who} rebuilt, as a peak signal-to-noise ratio; a random image gives {floor:.1f} dB.",
        digits=1,
        higher_is_better=False,
    )


def _first_mean(cells: Sequence[Cell]) -> float:
    return cells[0].mean if cells and cells[0].mean is not None else float("-inf")

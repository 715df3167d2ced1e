"""A whole leaderboard from records: robustness, privacy and cost, and one row a defense that joins the three."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.records.manifest import RESULTS_VERSION
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report import leaks, robust
from fflbench.report.panels import Board, Cell, Column, Panel, Row
from fflbench.report.statistics import estimate, leaders

STALE = "stale: some of its records were made by older code than this"
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
    taken: set[str] = set()
    for place, panel in enumerate(panels):
        # Two names may come down to one.
        if panel.name in taken:
            panels[place] = panel.model_copy(update={"name": f"{panel.name}-{place}"})
        taken.add(panels[place].name)
    cautions = _cautions(records, reported or {})
    return Board(
        suite=suite,
        title=title,
        description=description,
        panels=tuple(_with_cautions(panel, cautions) for panel in panels),
        flags=tuple(_flags(tasks, records)),
    )


def within(records: Iterable[Record], allowed: Iterable[str]) -> list[Record]:
    """Records of attackers who need to know nothing but what is allowed: a threat model."""
    known = set(allowed)
    return [record for record in records if set(_knowledge(record)) <= known]


def _knowledge(record: Record) -> Iterable[str]:
    """What its attacker must know: by the record itself, else by the plugin."""
    if "knows" in record.facts:
        told: list[str] = record.facts["knows"]
        return told
    kind = Kind.ATTACK if Kind.ATTACK in record.configuration else Kind.PRIVACY_ATTACK
    name = record.configuration.get(kind, {}).get("name", "")
    return next((entry.knows for entry in registry.entries(kind) if entry.name == name), ())


def _about(suite: str) -> tuple[str, str]:
    try:
        entry = registry.get(Kind.SUITE, suite)
    except FflbenchError:
        return suite, ""
    return entry.title, entry.summary


def _cautions(records: Sequence[Record], reported: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By label, what must be said of a row: that it came from outside, or that older code made some of it."""
    versions = _versions()
    told: dict[str, tuple[str, ...]] = {}
    for record in records:
        why = ([reported[record.id]] if record.id in reported else []) + [STALE] * _stale(record, versions)
        label = record.labels["defense"]
        told[label] = tuple(dict.fromkeys([*told.get(label, ()), *why]))
    return told


def _with_cautions(panel: Panel, told: Mapping[str, tuple[str, ...]]) -> Panel:
    rows = tuple(
        row.model_copy(update={"flags": (*row.flags, *told[row.label])}) if told.get(row.label) else row
        for row in panel.rows
    )
    return panel.model_copy(update={"rows": rows})


def _versions() -> dict[tuple[Kind, str], int]:
    return {(entry.kind, entry.name): entry.version for kind in Kind for entry in registry.entries(kind)}


# Flags


def _flags(tasks: Sequence[robust.Task], records: Sequence[Record]) -> Iterable[str]:
    for task in tasks:
        yield from robust.weaker_than_control(task)
        if task.attacks and not robust.controls(task):
            yield f"{task.name}: noise-control was not run, so weak attacks cannot be told from strong ones"
    versions = _versions()
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


@dataclass(frozen=True)
class Leak:
    """What the attacks of a setting made of a defense, seed by seed, and what keeps that from being complete."""

    figures: dict[int, float]
    trouble: str = ""

    def cell(self) -> Cell:
        """As a table shows it."""
        if self.trouble:
            return Cell(text=self.trouble)
        return Cell.of(estimate(list(self.figures.values()))) if self.figures else Cell()


def leakage(records: Sequence[Record], defense: str, targets: Iterable[str]) -> Leak:
    """The best that any attack made of a defense by these ways of looking, in decibels; failed cells included."""
    seeds = {record.configuration["seed"] for record in records}
    by_row: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        if record.labels["defense"] == defense and _target(record) in targets:
            row = record.labels["privacy-attack"], _target(record)
            by_row.setdefault(row, {})[record.configuration["seed"]] = record
    found = dict.fromkeys(seeds, -math.inf)
    counts = Counter[str]()
    for of_row in by_row.values():
        for seed in seeds:
            psnr = of_row[seed].metrics.get("psnr") if seed in of_row else None
            if isinstance(psnr, float | int):
                found[seed] = max(found[seed], float(psnr))
            else:
                counts["failed" if seed in of_row else "missing"] += 1
    told = ", ".join(f"{count} of {len(by_row) * len(seeds)} {what}" for what, count in sorted(counts.items()))
    return Leak({} if counts or not by_row else found, told)


def _privacy(records: Sequence[Record]) -> Iterable[Panel]:
    for number, (title, of_setting) in enumerate(leaks.settings(records, failed=True).items(), start=1):
        done = [record for record in of_setting if record.status == "done"]
        targets = {_target(record): record.facts for record in reversed(done)}
        tried = {_target(record) for record in of_setting}
        order = [name for name in leaks.TARGET_ORDER if name in tried]
        order += sorted(tried - set(order))
        columns = [_leak_column(name, targets.get(name, {})) for name in order]
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
            Column(
                name="floor",
                title="floor, dB",
                meaning="What random examples of the same data give, over the ways of looking at that defense.",
                digits=1,
            )
        )
        defenses = list(dict.fromkeys(record.labels["defense"] for record in of_setting))
        worst_known = {name: leakage(of_setting, name, order) for name in defenses}
        marks = leaders({name: leak.figures for name, leak in worst_known.items() if leak.figures}, highest=False)
        rows = []
        for name in defenses:
            cells = [leakage(of_setting, name, [target]).cell() for target in order]
            cells.append(worst_known[name].cell().model_copy(update={"mark": marks.get(name, "")}))
            own = [record for record in done if record.labels["defense"] == name]
            cells.append(_floor(own))
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
                "higher means that more came back, and what is near the floor tells nothing. Empty: was not run, "
                "mostly since it makes no sense against that defense.",
            ),
        )


def _floor(records: Sequence[Record]) -> Cell:
    by_seed: dict[int, list[float]] = {}
    for record in records:
        by_seed.setdefault(record.configuration["seed"], []).extend(leaks.values([record], "floor_psnr"))
    return Cell.of(estimate([fmean(values) for values in by_seed.values()])) if by_seed else Cell()


def _leak_column(target: str, facts: Mapping[str, Any]) -> Column:
    knows = " and ".join(str(item) for item in facts.get("knows", ["unknown, since all of it failed"]))
    return Column(
        name=target,
        title=f"{target} ({facts['caution']}), dB" if facts.get("caution") else f"{target}, dB",
        meaning=f"{facts.get('target', target)}. Must know: {knows}.",
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
            told = leaks.told(record)
            people = f"{record.labels['task']}, batch {told['batch']}, rate {told['rate']}"
            label = f"{record.labels['defense']}, pads {pads}, {record.labels['privacy-attack']}, {people}"
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
            name=robust.slug(f"runtime-{task}-{updates}"),
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
            name=robust.slug(f"bytes-{task}"),
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
    for task in tasks:
        summary = robust.summary(task)
        places = {column.name: place for place, column in enumerate(summary.columns)}
        targeted = [name for name in task.attacks if task.targeted[name]]
        excess = "worst_excess" if len(targeted) > 1 else targeted[0] if targeted else ""
        taken = [name for name in ("worst_accuracy", excess, "clean_cost") if name in places]
        columns = [summary.columns[places[name]] for name in taken]
        by_label = {row.label: row for row in summary.rows}
        title, rebuilt = _setting_for(task.name, records)
        labels = list(dict.fromkeys([*by_label, *(record.labels["defense"] for record in rebuilt)]))
        lines: dict[str, list[Cell]] = {
            label: [
                by_label[label].cells[places[name]] if label in by_label else Cell(text="not run") for name in taken
            ]
            for label in labels
        }
        done = [record for record in rebuilt if record.status == "done"]
        for name, shown, who, alone in (
            ("leak_alone", "leak, dB", "a server by itself", True),
            ("leak_with_help", "leak with help, dB", "a server with an oracle or a traitor", False),
        ):
            ways = {_target(record) for record in rebuilt if _alone(record, done) == alone}
            if ways:
                columns.append(_overall_leak(name, shown, who, done))
                for label, cells in lines.items():
                    cells.append(leakage(rebuilt, label, ways).cell())
        runtime = [record for record in _measured(records, "runtime") if record.labels["task"] == task.name]
        if runtime:
            updates = min(leaks.told(record)["updates"] for record in runtime)
            runtime = [record for record in runtime if leaks.told(record)["updates"] == updates]
            columns += [
                column.model_copy(update={"meaning": f"{column.meaning} With {updates} updates."})
                for column in RUNTIME.values()
            ]
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
                *_adaptive_flags([record for record in done if record.labels["defense"] == label]),
                *_differing(label, task.name, records),
            )
            for label in labels
        }
        higher = bool(columns and columns[0].higher_is_better)
        ranked = sorted(labels, key=lambda label: _rank(lines[label], higher))
        yield Panel(
            name=robust.slug(f"overall-{task.name}"),
            title=f"{task.name}: robustness, privacy and cost",
            section="overall",
            columns=tuple(columns),
            rows=tuple(Row(label=label, cells=tuple(lines[label]), flags=flags[label]) for label in ranked),
            notes=_overall_notes(title),
        )


def _alone(record: Record, done: Sequence[Record]) -> bool:
    """Whether its target needs nobody's help; a failed record does not say, so others of its target do."""
    told = [other.facts["knows"] for other in done if _target(other) == _target(record)]
    return not told or told[0] == ALONE


def _setting_for(task: str, records: Sequence[Record]) -> tuple[str, list[Record]]:
    """The reconstructions that stand in a task's row: of the same task, else of the first that has any."""
    settings = leaks.settings(records, failed=True)
    own = [title for title, of_setting in settings.items() if of_setting[0].labels["task"] == task]
    title = next(iter([*own, *settings]), "")
    found = settings.get(title, [])
    return (title, found) if any(record.status == "done" for record in found) else ("", [])


def _differing(label: str, task: str, records: Sequence[Record]) -> Iterable[str]:
    """Where a defense was set otherwise for its costs than for its robustness, which is one row here."""
    told: dict[str, list[Any]] = {}
    for record in records:
        if re.sub(r", strategy \d+$", "", record.labels["defense"]) == label and record.labels["task"] == task:
            for name, value in record.configuration["defense"]["parameters"].items():
                values = told.setdefault(name, [])
                values += [value] * (value not in values)
    varied = [f"{name} = {' and '.join(map(str, values))}" for name, values in told.items() if len(values) > 1]
    if varied:
        yield f"robustness and cost were measured with different settings: {', '.join(varied)}"


def _overall_notes(setting: str) -> tuple[str, ...]:
    told = "Sorted by the worst case over attacks, pointwise by seed."
    if setting:
        told += f" Leaks are reconstructions on {setting}: near the floor nothing comes back."
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


def _rank(cells: Sequence[Cell], higher: bool) -> float:
    mean = cells[0].mean if cells else None
    return math.inf if mean is None else -mean if higher else mean

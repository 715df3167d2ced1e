"""A whole leaderboard from records: robustness, privacy and cost, and one row a defense that joins the three."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fflbench import registry
from fflbench.errors import FflbenchError
from fflbench.records.manifest import RESULTS_VERSION, ROBUSTNESS_VERSION
from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.registry import Kind
from fflbench.report import expenses, inferences, leaks, private, robust
from fflbench.report.panels import Board, Cell, Column, Panel, Row
from fflbench.report.statistics import estimate
from fflbench.report.texts import distinct, printable

STALE = "stale: some of its records were made by older code than this"
ALONE = ["server view"]
"""What a server knows without anybody's help."""


def board(suite: str, records: Sequence[Record], reported: Mapping[str, str] | None = None) -> Board:
    """Everything; `reported` names records that came from outside and that nobody has run again, with their origin."""
    title, description = _about(suite, records)
    tasks = robust.tasks(records)
    panels = [*_overall(tasks, records)]
    for task in tasks:
        panels += robust.panels(task)
    panels += [
        *private.panels(records),
        *private.partners(records),
        *inferences.panels(records),
        *expenses.runtime(records),
        *expenses.sent(records),
    ]
    taken: list[str] = []
    for place, panel in enumerate(panels):
        # Two names may come down to one.
        taken.append(distinct(panel.name, taken))
        panels[place] = panel.model_copy(update={"name": taken[-1]})
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


def _about(suite: str, records: Iterable[Record]) -> tuple[str, str]:
    """The suite's title as its records have it, else as it is registered; its summary if it is the registered one."""
    own = Counter(printable(record.title) for record in records if record.title).most_common(1)
    try:
        entry = registry.get(Kind.SUITE, suite)
    except FflbenchError:
        return (own[0][0] if own else suite), ""
    return (own[0][0], "") if own and own[0][0] != entry.title else (entry.title, entry.summary)


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


def _versions() -> dict[tuple[Kind, str], int | str]:
    return {(entry.kind, entry.name): entry.results_version for kind in Kind for entry in registry.entries(kind)}


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
    yield from _mixtures(records)
    failed = [f"{record}: {record.reason}" for record in records if record.status == "failed"]
    if failed:
        yield f"{_count(len(failed), 'cell')} failed: {_some(failed)}"
    for what in ("fflbench", "libraries", "processor", "python"):
        told = Counter(str(record.manifest.get(what)) for record in records)
        if len(told) > 1:
            usual = told.most_common(1)[0][0]
            other = [str(record) for record in records if str(record.manifest.get(what)) != usual]
            yield f"{_count(len(other), 'record')} made with another {what} than the others: {_some(other)}"


def _mixtures(records: Sequence[Record]) -> Iterable[str]:
    """Plugins of which records hold more than one results version, so that their figures are not of one code."""
    found: dict[str, Counter[str]] = {}
    for record in records:
        made = record.manifest.get("results")
        for kind, version in (made if isinstance(made, dict) else {}).items():
            chosen = record.configuration.get(kind)
            name = f'{kind} "{chosen["name"]}"' if isinstance(chosen, dict) else kind
            found.setdefault(name, Counter())[str(version)] += 1
    for name, versions in found.items():
        if len(versions) > 1:
            told = ", ".join(f"{count} of version {version}" for version, count in versions.most_common())
            yield f"records are a mixture of versions of {name}: {told}; fflbench run makes them anew"


def _stale(record: Record, versions: Mapping[tuple[Kind, str], int | str]) -> bool:
    """Whether the code that decides its result has changed since; plugins that are not here cannot tell."""
    told = record.manifest.get("results")
    if not isinstance(told, dict):
        return True
    robustness = None if "measure" in record.configuration else ROBUSTNESS_VERSION
    if (told.get("core"), told.get("robustness")) != (RESULTS_VERSION, robustness):
        return True
    chosen = {(kind, record.configuration[kind]["name"]) for kind in Kind if kind in record.configuration}
    return any(told.get(kind.value) != versions[kind, name] for kind, name in chosen if (kind, name) in versions)


def _some(texts: Sequence[str]) -> str:
    return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


# All together


def _overall(tasks: Sequence[robust.Task], records: Sequence[Record]) -> Iterable[Panel]:
    for task in tasks:
        summary = robust.summary(task)
        places = {column.name: place for place, column in enumerate(summary.columns)}
        targeted = [name for name in task.attacks if task.targeted[name]]
        excess = "worst_excess" if len(targeted) > 1 else targeted[0] if targeted else ""
        # Where nobody was attacked, what the model is worth without.
        first = "worst_accuracy" if "worst_accuracy" in places else "clean"
        taken = [name for name in (first, excess, "clean_cost", "epsilon") if name in places]
        columns = [summary.columns[places[name]] for name in taken]
        by_label = {row.label: row for row in summary.rows}
        title, rebuilt = _setting_for(task.name, records)
        judged = _judged_for(task.name, records)
        labels = list(dict.fromkeys([*by_label, *(record.labels["defense"] for record in [*rebuilt, *judged])]))
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
            ways = {private.target_of(record) for record in rebuilt if _alone(record, done) == alone}
            if ways:
                columns.append(_overall_leak(name, shown, who, done))
                for label, cells in lines.items():
                    cells.append(private.leakage(rebuilt, label, ways).cell())
        helped = inferences.helped(judged)
        for name, shown, who, is_alone in (
            ("membership_alone", "membership, auc", "a server, with people and data of its own,", True),
            ("membership_with_help", "membership with help, auc", "a server with an oracle or a traitor", False),
        ):
            of_kind = [record for record in judged if (private.target_of(record) not in helped) == is_alone]
            if of_kind:
                columns.append(_overall_membership(name, shown, who))
                for label, cells in lines.items():
                    ways = {private.target_of(record) for record in of_kind}
                    cells.append(inferences.strongest(of_kind, label, ways).cell())
        runtime = [record for record in expenses.measured(records, "runtime") if record.labels["task"] == task.name]
        if runtime:
            updates = min(leaks.told(record)["updates"] for record in runtime)
            runtime = [record for record in runtime if leaks.told(record)["updates"] == updates]
            columns += [
                column.model_copy(update={"meaning": f"{column.meaning} With {updates} updates."})
                for column in expenses.RUNTIME.values()
            ]
            for label, cells in lines.items():
                cells += expenses.runtime_cells(runtime, label)
        sent = [record for record in expenses.measured(records, "communication") if record.labels["task"] == task.name]
        if sent:
            columns.append(expenses.KILOBYTES)
            for label, cells in lines.items():
                own = [record for record in sent if record.labels["defense"] == label]
                found = leaks.values(own, "bytes")
                cells.append(expenses.exact(found[0] / 1e3).behind(own) if found else Cell())
        flags = {
            label: (
                *(by_label[label].flags if label in by_label else ()),
                *private.adaptive_flags([record for record in done if record.labels["defense"] == label]),
                *_differing(label, task.name, records),
            )
            for label in labels
        }
        higher = bool(columns and columns[0].higher_is_better)
        ranked = sorted(labels, key=lambda label: _rank(lines[label], higher))
        yield Panel(
            name=slug(f"overall-{task.name}"),
            title=f"{task.name}: robustness, privacy and cost",
            section="overall",
            columns=tuple(columns),
            rows=tuple(Row(label=label, cells=tuple(lines[label]), flags=flags[label]) for label in ranked),
            notes=_overall_notes(title),
        )


def _alone(record: Record, done: Sequence[Record]) -> bool:
    """Whether its target needs nobody's help; a failed record does not say, so others of its target do."""
    told = [other.facts["knows"] for other in done if private.target_of(other) == private.target_of(record)]
    return not told or told[0] == ALONE


def _setting_for(task: str, records: Sequence[Record]) -> tuple[str, list[Record]]:
    """The reconstructions that stand in a task's row: of the same task, else of the first that has any."""
    settings = leaks.settings(records, failed=True)
    own = [title for title, of_setting in settings.items() if of_setting[0].labels["task"] == task]
    title = next(iter([*own, *settings]), "")
    found = settings.get(title, [])
    return (title, found) if any(record.status == "done" for record in found) else ("", [])


def _judged_for(task: str, records: Sequence[Record]) -> list[Record]:
    """The membership inference that stands in a task's row: of the same task, controls apart; the first setting."""
    settings = inferences.settings(records, inferences.MEMBERSHIP, failed=True).values()
    own = [of for of in settings if of[0].labels["task"] == task and not inferences.is_control(of[0])]
    return own[0] if own else []


def _differing(label: str, task: str, records: Sequence[Record]) -> Iterable[str]:
    """Where a defense was set otherwise for its costs than for its robustness, which is one row here."""
    told: dict[str, dict[str, str]] = {}
    for record in records:
        if robust.defense_of(record) == label and record.labels["task"] == task:
            what = "robustness" if "attack" in record.configuration else record.configuration["measure"]["name"]
            for name, value in record.configuration["defense"]["parameters"].items():
                told.setdefault(name, {})[what] = str(value)
    for name, by_use in told.items():
        if len(set(by_use.values())) > 1:
            uses = ", ".join(f"{what} with {name} = {value}" for what, value in by_use.items())
            yield f"measured with different settings: {uses}{_meaning(label, name, records)}"


def _meaning(label: str, parameter: str, records: Sequence[Record]) -> str:
    """What a defense's parameter sets, where its plugin is here to tell."""
    names = {
        record.configuration["defense"]["name"] for record in records if record.labels["defense"].startswith(label)
    }
    for entry in registry.entries(Kind.DEFENSE):
        for known in entry.parameters:
            if entry.name in names and known.name == parameter and known.meaning:
                return f" ({parameter}: {known.meaning})"
    return ""


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
        meaning=f"The most that {who} rebuilt of people's images, as a peak signal-to-noise ratio: a random image "
        f"gives {floor:.1f} dB and tells nothing, from about 20 dB an image can be recognised, above 40 it is a copy.",
        digits=1,
        higher_is_better=False,
    )


def _overall_membership(name: str, title: str, who: str) -> Column:
    return Column(
        name=name,
        title=title,
        meaning=f"How well {who} tells who was in the training data: area under the ROC curve of the strongest attack; "
        "0.5 is chance.",
        digits=3,
        higher_is_better=False,
    )


def _rank(cells: Sequence[Cell], higher: bool) -> float:
    mean = cells[0].mean if cells else None
    return math.inf if mean is None else -mean if higher else mean

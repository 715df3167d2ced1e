"""The privacy tables of a leaderboard: what was rebuilt, at each way of looking, and the worst of it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fflbench.records.record import Record
from fflbench.report import leaks
from fflbench.report.panels import Cell, Column, Panel, Row
from fflbench.report.statistics import estimate, leaders


@dataclass(frozen=True)
class Leak:
    """What the attacks of a setting made of a defense, seed by seed, and what keeps that from being complete."""

    figures: dict[int, float]
    trouble: str = ""
    records: tuple[Record, ...] = ()

    def cell(self) -> Cell:
        """As a table shows it."""
        figures = list(self.figures.values())
        cell = Cell.of(estimate(figures)) if figures and not self.trouble else Cell(text=self.trouble)
        return cell.behind(self.records)


def leakage(records: Sequence[Record], defense: str, targets: Iterable[str]) -> Leak:
    """The best that any attack made of a defense by these ways of looking, in decibels; failed cells included."""
    seeds = {record.configuration["seed"] for record in records}
    by_row: dict[tuple[str, str], dict[int, Record]] = {}
    for record in records:
        if record.labels["defense"] == defense and target_of(record) in targets:
            row = record.labels["privacy-attack"], target_of(record)
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
    own = tuple(record for of_row in by_row.values() for record in of_row.values())
    return Leak({} if counts or not by_row else found, told, own)


def panels(records: Sequence[Record]) -> Iterable[Panel]:
    """What the attacks of each setting made of every defense."""
    for number, (title, of_setting) in enumerate(leaks.settings(records, failed=True).items(), start=1):
        done = [record for record in of_setting if record.status == "done"]
        targets = {target_of(record): record.facts for record in reversed(done)}
        tried = {target_of(record) for record in of_setting}
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
            rows.append(Row(label=name, cells=tuple(cells), flags=adaptive_flags(own)))
        attacks = list(dict.fromkeys(record.labels["privacy-attack"] for record in of_setting))
        yield Panel(
            name=f"privacy-{number}",
            title=title,
            section="privacy",
            columns=tuple(columns),
            rows=tuple(rows),
            notes=(
                f"Reconstruction by {', '.join(attacks)}: peak signal-to-noise ratio, the best attack of each seed; "
                "higher means that more came back: near the floor nothing, from about 20 dB an image can be "
                "recognised, above 40 dB it is a copy. Empty: was not run, mostly since it makes no sense against that "
                "defense.",
            ),
        )


def _floor(records: Sequence[Record]) -> Cell:
    by_seed: dict[int, list[float]] = {}
    for record in records:
        by_seed.setdefault(record.configuration["seed"], []).extend(leaks.values([record], "floor_psnr"))
    means = [fmean(values) for values in by_seed.values()]
    return Cell.of(estimate(means)).behind(records) if means else Cell()


def _leak_column(target: str, facts: Mapping[str, Any]) -> Column:
    knows = " and ".join(str(item) for item in facts.get("knows", ["unknown, since all of it failed"]))
    return Column(
        name=target,
        title=f"{target} ({facts['caution']}), dB" if facts.get("caution") else f"{target}, dB",
        meaning=f"{_sentence(facts.get('target', target))} The server must know: {knows}.",
        digits=1,
        higher_is_better=False,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def target_of(record: Record) -> str:
    """How the server looked."""
    return str(leaks.told(record)["target"])


def adaptive_flags(records: Sequence[Record]) -> tuple[str, ...]:
    """A warning where nobody attacked an exchange knowingly."""
    exchanges = any(record.facts["adaptive"] is not None for record in records)
    adapted = any(record.facts["adaptive"] for record in records)
    return ("no adaptive attack has been run against its exchange",) if exchanges and not adapted else ()


def partners(records: Sequence[Record]) -> Iterable[Panel]:
    """What partners learn of each other."""
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
                        Cell.of(estimate(leaks.values(of_row, name))).behind(of_row)
                        for name in ("recovered", "bit_accuracy")
                    ),
                )
                for label, of_row in rows.items()
            ),
            notes=("Demonstrations are exchanges as they must not be, to show that the attacks work.",),
        )

"""Membership and property inference from records: how well a server tells who was in the data, and what it is like."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fflbench.privacy.roc import LEVELS, exact_interval
from fflbench.records.record import Record
from fflbench.report import leaks
from fflbench.report.costs import Sheet
from fflbench.report.panels import Cell, Column, Mark, Panel, Row
from fflbench.report.plots import style
from fflbench.report.private import adaptive_flags, target_of
from fflbench.report.robust import BASELINE
from fflbench.report.statistics import estimate, leaders

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEMBERSHIP, PROPERTY = "membership", "property"
MEASURES = (MEMBERSHIP, PROPERTY)
LEFT_OUT = {MEMBERSHIP: ("members", "others"), PROPERTY: ("groups", "people", "model_epochs")}
"""What titles do not tell."""
TICKS = (0.001, 0.01, 0.1, 1.0)
LEAST = TICKS[0]
"""Where the axes of a curve begin."""


# What belongs together


def settings(records: Iterable[Record], measure: str, *, failed: bool = False) -> dict[str, list[Record]]:
    """Records by what they have in common but attack, target, defense and seed, under a title."""
    judged = [
        record
        for record in records
        if record.configuration.get("measure", {}).get("name") == measure and (failed or record.status == "done")
    ]
    found: dict[str, list[Record]] = {}
    for record in judged:
        set_ = leaks.told(record)
        # What a title leaves out is told where it varies within a task.
        alike = [leaks.told(other) for other in judged if other.labels["task"] == record.labels["task"]]
        varied = [name for name in LEFT_OUT[measure] if len({other.get(name) for other in alike}) > 1]
        title = _title(record, set_) + "".join(f", {name} = {set_.get(name)}" for name in varied)
        found.setdefault(title, []).append(record)
    return found


def _title(record: Record, set_: Mapping[str, Any]) -> str:
    task = record.labels["task"]
    if record.configuration["measure"]["name"] == PROPERTY:
        shares = f"{100 * set_['share_with']:g} or {100 * set_['share_without']:g}% of {set_['examples']} examples"
        return f"{task}: whether {shares} have the trait"
    what = "members against members, a control" if set_["control"] else "members against others"
    return f"{task}: {what}, round {set_['rounds_before'] + 1}"


def is_control(record: Record) -> bool:
    """Whether there is nothing to tell."""
    return bool(leaks.told(record).get("control"))


def _setup(records: Sequence[Record]) -> str:
    """How victims trained, in a sentence."""
    facts = records[0].facts
    if "training" not in facts:
        return ""
    return f"Victims hold {facts['examples_each']:.0f} examples each and train {facts['training']}. "


# Tables of a run


def sheets(records: Sequence[Record]) -> list[Sheet]:
    """One table a task and setting."""
    return [
        Sheet(
            f"{measure.capitalize()}, {title}",
            (
                *("attack", "target", "defense", "auc", "by chance"),
                *(f"tpr at fpr {level}" for level in LEVELS),
                *("pairs %", "members", "others", "s", "adaptive", "knows"),
            ),
            tuple((*row, *_figures(of_row)) for row, of_row in leaks.rows(of_setting).items()),
            (
                f"{_setup(of_setting)}Area under the ROC curve, mean over seeds ± half of the 95% interval (Student's "
                "t); by chance it lies within so much of 0.5 in 95% of single seeds. Rates of true positives are of "
                "all seeds together, with exact binomial intervals, each seed with its own threshold; nothing where "
                "there are too few others to tell such a rate of false positives (10,000 for 0.001).",
            ),
        )
        for measure in MEASURES
        for title, of_setting in settings(records, measure).items()
    ]


def _figures(records: Sequence[Record]) -> tuple[str, ...]:
    chance, pairs = (leaks.values(records, name) for name in ("auc_by_chance", "pair_accuracy"))
    told = [pooled(records, level) for level in LEVELS]
    return (
        leaks.with_interval(estimate(leaks.values(records, "auc")), 3),
        f"± {fmean(chance):.3f}",
        *(f"{100 * rate.share:.2f}% ({100 * rate.low:.2f} to {100 * rate.high:.2f})" if rate else "" for rate in told),
        f"{100 * fmean(pairs):.0f}" if pairs else "",
        *(f"{sum(record.facts[name] for record in records):,}" for name in ("members", "non_members")),
        f"{fmean(record.seconds.get('attack', 0.0) for record in records):.2g}",
        leaks.adaptive(records[0]),
        ", ".join(records[0].facts["knows"]),
    )


@dataclass(frozen=True)
class Rate:
    """A share with its exact interval."""

    share: float
    low: float
    high: float


def pooled(records: Sequence[Record], level: float) -> Rate | None:
    """The rate of true positives of all seeds together; nothing where a seed has none."""
    rates = leaks.values(records, f"tpr_at_fpr_{level}")
    if not rates or len(rates) < len(records):
        return None
    tried = sum(record.facts["members"] for record in records)
    found = sum(round(rate * record.facts["members"]) for rate, record in zip(rates, records, strict=True))
    return Rate(found / tried, *exact_interval(found, tried))


# Tables of a leaderboard


@dataclass(frozen=True)
class Strongest:
    """The attack and way of looking that tell most by the mean over seeds, or what keeps that from being known."""

    records: tuple[Record, ...] = ()
    trouble: str = ""

    @property
    def figures(self) -> dict[int, float]:
        """The area under its curve, by seed."""
        return {record.configuration["seed"]: leaks.values([record], "auc")[0] for record in self.records}

    @property
    def name(self) -> str:
        """Of the attack."""
        return self.records[0].labels["privacy-attack"] if self.records else ""

    def cell(self, mark: Mark = "") -> Cell:
        """As a table shows it."""
        if self.trouble or not self.records:
            return Cell(text=self.trouble)
        return Cell.of(estimate(list(self.figures.values())), mark, self.name).behind(self.records)

    def rate(self, level: float) -> Cell:
        """The same, of true positives."""
        rate = pooled(self.records, level) if self.records else None
        if rate is None:
            return Cell(text=self.trouble)
        told = f"{100 * rate.low:.2f} to {100 * rate.high:.2f}, {self.name}"
        return Cell(mean=rate.share, seeds=len(self.records), note=told).behind(self.records)


def strongest(records: Sequence[Record], defense: str, targets: Iterable[str], level: float | None = None) -> Strongest:
    """Of all attacks on a defense by these ways of looking, failed ones included; by area, or by the left end."""
    seeds = {record.configuration["seed"] for record in records}
    own = [record for record in records if record.labels["defense"] == defense and target_of(record) in targets]
    rows = leaks.rows(own)
    broken = sum(record.status != "done" for record in own)
    missing = len(rows) * len(seeds) - len(own)
    if broken or missing:
        counts = ((broken, "failed"), (missing, "missing"))
        told = ", ".join(f"{count} of {len(rows) * len(seeds)} {what}" for count, what in counts if count)
        return Strongest(trouble=told)

    def strength(of_row: list[Record]) -> float:
        rate = None if level is None else pooled(of_row, level)
        return rate.share if rate else fmean(leaks.values(of_row, "auc"))

    ranked: list[list[Record]] = sorted(rows.values(), key=strength)
    return Strongest(tuple(ranked[-1])) if ranked else Strongest()


def helped(records: Iterable[Record]) -> set[str]:
    """The ways of looking for which a server needs an oracle or a traitor; failed records do not say."""
    return {target_of(record) for record in records if record.facts.get("caution")}


def panels(records: Sequence[Record]) -> Iterable[Panel]:
    """What the attacks of each setting could tell of every defense."""
    for measure in MEASURES:
        for number, (title, of_setting) in enumerate(settings(records, measure, failed=True).items(), start=1):
            name = f"{measure}-{number}"
            if is_control(of_setting[0]):
                yield _control(name, title, of_setting)
                continue
            yield _areas(name, f"{measure.capitalize()}, {title}", of_setting)
            for level in LEVELS:
                if any(leaks.values([record], f"tpr_at_fpr_{level}") for record in of_setting):
                    yield _rates(f"{name}-fpr-{level}", title, of_setting, level)


def _ways(records: Sequence[Record]) -> list[str]:
    tried = {target_of(record) for record in records}
    return [name for name in leaks.TARGET_ORDER if name in tried] + sorted(tried - set(leaks.TARGET_ORDER))


def _defenses(records: Sequence[Record]) -> list[str]:
    """In one order, whatever the records': without defense first."""
    return sorted({record.labels["defense"] for record in records}, key=lambda name: (name != BASELINE, name))


def _column(target: str, records: Sequence[Record], unit: str) -> Column:
    facts = next((record.facts for record in records if record.status == "done" and target_of(record) == target), {})
    caution = f" ({facts['caution']})" if facts.get("caution") else ""
    return Column(
        name=target,
        title=f"{target}{caution}, {unit}",
        meaning=f"{facts.get('target', target)}.",
        digits=3,
        higher_is_better=False,
    )


def _areas(name: str, title: str, records: Sequence[Record]) -> Panel:
    ways, defenses = _ways(records), _defenses(records)
    columns = [_column(target, records, "auc") for target in ways]
    meaning = "The attack and way of looking that tell most by the mean over seeds."
    columns.append(Column(name="worst", title="worst known, auc", meaning=meaning, digits=3, higher_is_better=False))
    worst = {defense: strongest(records, defense, ways) for defense in defenses}
    marks = leaders({defense: found.figures for defense, found in worst.items() if found.records}, highest=False)
    rows = []
    for defense in defenses:
        cells = [strongest(records, defense, [target]).cell() for target in ways]
        cells.append(worst[defense].cell(_mark(marks.get(defense, ""))))
        own = [record for record in records if record.labels["defense"] == defense and record.status == "done"]
        rows.append(Row(label=defense, cells=tuple(cells), flags=adaptive_flags(own)))
    chance = [value for record in records for value in leaks.values([record], "auc_by_chance")]
    done = [record for record in records if record.status == "done"]
    within = (
        f" Where there is nothing to tell, one seed lies within {fmean(chance):.3f} of 0.5 in 95%." if chance else ""
    )
    return Panel(
        name=name,
        title=title,
        section="privacy",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            f"{_setup(done) if done else ''}Area under the ROC curve of the strongest attack by the mean over seeds, "
            f"whose name stands beside it: 0.5 is chance, 1 certainty.{within} The strongest of several that tell "
            "nothing is a little above 0.5. Empty: was not run, mostly since it makes no sense against that defense.",
        ),
    )


def _mark(mark: str) -> Mark:
    return "best" if mark == "best" else "tied" if mark == "tied" else ""


def _rates(name: str, title: str, records: Sequence[Record], level: float) -> Panel:
    ways = _ways(records)
    columns = [
        _column(target, records, "members told %").model_copy(update={"percent": True, "digits": 2}) for target in ways
    ]
    return Panel(
        name=name,
        title=f"Members told with {100 * level:g}% of false alarms, {title}",
        section="privacy",
        columns=tuple(columns),
        rows=tuple(
            Row(
                label=defense,
                cells=tuple(strongest(records, defense, [target], level).rate(level) for target in ways),
            )
            for defense in _defenses(records)
        ),
        notes=(
            f"Members whom the attack finds while it takes {100 * level:g}% of the others for members, so "
            f"{100 * level:g}% is chance: the attack that finds most, over all seeds, with the exact binomial interval "
            "of 95% at the threshold that was found. Of several that tell nothing, one finds a little more.",
        ),
    )


def _control(name: str, title: str, records: Sequence[Record]) -> Panel:
    """Columns are attacks here: each has to show that it tells nothing where there is nothing."""
    attacks = sorted({record.labels["privacy-attack"] for record in records})
    rows = []
    for defense in _defenses(records):
        found = leaks.rows(record for record in records if record.labels["defense"] == defense)
        by_attack = {attack: of_row for (attack, _, _), of_row in found.items()}
        cells = [
            Cell.of(estimate(values)).behind(by_attack[attack])
            if (values := leaks.values(by_attack.get(attack, []), "auc"))
            else Cell()
            for attack in attacks
        ]
        rows.append(Row(label=defense, cells=tuple(cells)))
    return Panel(
        name=name,
        title=f"Membership, {title}",
        section="privacy",
        columns=tuple(
            Column(name=attack, title=f"{attack}, auc", meaning="Area under the ROC curve; 0.5 is chance.", digits=3)
            for attack in attacks
        ),
        rows=tuple(rows),
        notes=("Half of each victim's members pass for non-members: an honest attack comes out at 0.5.",),
    )


# Curves


def curves(title: str, records: Sequence[Record]) -> "tuple[Figure, list[list[Any]]]":
    """ROC curves of one setting on logarithmic axes, a panel an attack, a line a defense by the way that tells most."""
    from matplotlib.figure import Figure

    rows = leaks.rows(records)
    table: list[list[Any]] = [["attack", "defense", "target", "fpr", "tpr", "seeds"]]
    lines = {row: _mean_curve(of_row) for row, of_row in rows.items()}
    for (attack, target, defense), line in lines.items():
        table += [[attack, defense, target, x, y, len(rows[attack, target, defense])] for x, y in line.items()]
    attacks, defenses = sorted({attack for attack, _, _ in rows}), _defenses(records)
    columns = min(3, len(attacks))
    figure = Figure(figsize=(3.0 * columns + 2.2, 2.8 * -(-len(attacks) // columns) + 0.5), layout="constrained")
    axes = list(figure.subplots(-(-len(attacks) // columns), columns, sharex=True, sharey=True, squeeze=False).flat)
    for axis in axes[len(attacks) :]:
        axis.set_visible(False)
    drawn = {}
    for axis, attack in zip(axes, attacks, strict=False):
        (drawn["chance"],) = axis.loglog([LEAST, 1], [LEAST, 1], color="#999999", linestyle=":", linewidth=1)
        for place, defense in enumerate(defenses):
            ways = {row: of_row for row, of_row in rows.items() if (row[0], row[2]) == (attack, defense)}
            if ways:
                best = max(ways, key=lambda row: fmean(leaks.values(rows[row], "auc")))
                look = style(place) | {"marker": ""}
                (drawn[defense],) = axis.loglog(list(lines[best]), list(lines[best].values()), **look)
        axis.set_title(attack, fontsize="medium")
        for set_ticks, limit in ((axis.set_xticks, axis.set_xlim), (axis.set_yticks, axis.set_ylim)):
            set_ticks(TICKS, [f"{100 * tick:g}%" for tick in TICKS])
            limit(LEAST, 1)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("false positives", fontsize="medium")
    figure.supylabel("true positives", fontsize="medium")
    figure.suptitle(f"{title}; each defense by the way of looking that tells most", fontsize="medium")
    figure.legend(drawn.values(), drawn, frameon=False, fontsize="small", loc="outside right center")
    return figure, table


def _mean_curve(records: Sequence[Record]) -> dict[float, float]:
    """True positives by false positives, averaged over seeds where all of them reach."""
    points: dict[float, list[float]] = {}
    for record in records:
        for told in record.history:
            points.setdefault(told["fpr"], []).append(told["tpr"])
    return {level: fmean(values) for level, values in sorted(points.items()) if len(values) == len(records)}

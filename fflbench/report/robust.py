"""Robustness from records: what every attack does to every defense, and the worst of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fflbench.records.names import slug
from fflbench.records.record import Record
from fflbench.report.flags import flags
from fflbench.report.panels import Cell, Column, Panel, Row
from fflbench.report.statistics import BySeed, estimate, holm, leaders, paired, worst

BASELINE = "fedavg"
CONTROL = "noise-control"

LOSS = Column(name="test_loss", title="test loss", meaning="Loss on the test set.", digits=3, higher_is_better=False)
ACCURACY = Column(
    name="accuracy",
    title="accuracy %",
    meaning="Share of the test set that the model gets right.",
    percent=True,
    higher_is_better=True,
)
SOURCE = Column(
    name="source_accuracy",
    title="source accuracy %",
    meaning="Share of the attacked class that the model still gets right.",
    percent=True,
    higher_is_better=True,
)
SUCCESS = Column(
    name="attack_success_rate",
    title="attack success %",
    meaning="Share of the attacked class that the model takes for what the attacker wants.",
    percent=True,
    higher_is_better=False,
)


EPSILON = Column(
    name="epsilon",
    title="epsilon",
    meaning="What differential privacy promises of the updates of whoever took part most often, by an accountant; the "
    "largest over seeds. The smaller the better; above ten or so it promises little.",
    digits=1,
    higher_is_better=False,
)


@dataclass
class Runs:
    """One defense under one attack and strategy: its record of every seed."""

    records: dict[int, Record] = field(default_factory=dict)

    def values(self, name: str) -> dict[int, float]:
        """A metric of the seeds that have it."""
        told = {seed: record.metrics.get(name) for seed, record in self.records.items() if self.sound(record)}
        return {seed: float(value) for seed, value in told.items() if isinstance(value, float | int)}

    @staticmethod
    def sound(record: Record) -> bool:
        """Whether it has figures that mean something."""
        return record.status == "done" and not record.metrics.get("diverged")

    def trouble(self, seeds: set[int]) -> str:
        """What keeps its figures from being complete, in a few words."""
        counts = {
            "failed": sum(record.status == "failed" for record in self.records.values()),
            "diverged": sum(bool(record.metrics.get("diverged")) for record in self.records.values()),
            "missing": len(seeds - set(self.records)),
        }
        return ", ".join(f"{count} of {len(seeds)} {what}" for what, count in counts.items() if count)


@dataclass
class Task:
    """All of one task: by attack, by defense, by strategy."""

    name: str
    runs: dict[str, dict[str, dict[int, Runs]]] = field(default_factory=dict)
    targeted: dict[str, bool] = field(default_factory=dict)
    seeds: set[int] = field(default_factory=set)
    clean: str = ""
    """The attack that is none."""

    @property
    def defenses(self) -> list[str]:
        """In the order of the records."""
        return list(dict.fromkeys(name for of_attack in self.runs.values() for name in of_attack))

    @property
    def attacks(self) -> list[str]:
        """Those that attack."""
        return [name for name in self.runs if name != self.clean]

    def strategies(self, attack: str, defense: str) -> list[Runs]:
        """A defense under an attack, in every way its attackers behave in an exchange."""
        return list(self.runs.get(attack, {}).get(defense, {}).values())

    def figures(self, attack: str, defense: str, metric: str, *, highest: bool = False) -> dict[int, float]:
        """By seed, the worst over strategies: the lowest value, or the highest."""
        found = self.strategies(attack, defense)
        return worst((runs.values(metric) for runs in found), highest=highest)

    def trouble(self, attack: str, defense: str) -> str:
        """What keeps a place from being complete."""
        found = self.strategies(attack, defense)
        if not found:
            return "missing"
        return next((told for runs in found if (told := runs.trouble(self.seeds))), "")

    @property
    def baseline(self) -> str:
        """FedAvg, or in a suite without it the first defense."""
        return BASELINE if BASELINE in self.defenses else next(iter(self.defenses), "")


def tasks(records: Iterable[Record]) -> list[Task]:
    """Records that played a federation, task by task."""
    found: dict[str, Task] = {}
    for record in records:
        if "attack" not in record.configuration:
            continue
        task = found.setdefault(record.labels["task"], Task(record.labels["task"]))
        attack, told = record.labels["attack"], record.configuration["attack"]
        strategy = told["parameters"].get("strategy", 1)
        defense = defense_of(record)
        runs = task.runs.setdefault(attack, {}).setdefault(defense, {}).setdefault(strategy, Runs())
        runs.records[record.configuration["seed"]] = record
        task.seeds.add(record.configuration["seed"])
        task.targeted[attack] = task.targeted.get(attack, False) or bool(record.facts.get("targeted"))
        if told["name"] == "none":
            task.clean = attack
    return list(found.values())


def defense_of(record: Record) -> str:
    """What a suite calls its defense; where one meets attackers of several strategies, labels tell them too."""
    return re.sub(r", strategy \d+$", "", record.labels["defense"])


def panels(task: Task) -> list[Panel]:
    """The paper's table of each attack, then everything in one."""
    return [summary(task), *(attack_panel(task, attack) for attack in task.runs)]


def attack_panel(task: Task, attack: str) -> Panel:
    """One attack, as the paper's tables have it: methods by rows, the first without attack; metrics by columns."""
    metrics = (LOSS, SOURCE, SUCCESS) if task.targeted.get(attack) else (LOSS, ACCURACY)
    rows: dict[str, Runs] = {}
    if attack != task.clean and task.strategies(task.clean, task.baseline):
        rows[f"{task.baseline} (no attacks)"] = task.strategies(task.clean, task.baseline)[0]
    first = set(rows)
    for defense, by_strategy in task.runs[attack].items():
        for strategy, runs in by_strategy.items():
            rows[f"{defense}, strategy {strategy}" if len(by_strategy) > 1 else defense] = runs
    lines = {label: [_cell(runs, metric, task.seeds) for metric in metrics] for label, runs in rows.items()}
    for place, metric in enumerate(metrics):
        figures = {label: runs.values(metric.name) for label, runs in rows.items() if label not in first}
        _mark(lines, place, figures, task.seeds, highest=bool(metric.higher_is_better))
    primary = SUCCESS if task.targeted.get(attack) else ACCURACY
    against = _against(rows, task.baseline, primary, first, task.seeds)
    columns = (*metrics, _difference_column(primary, task.baseline))
    return Panel(
        name=slug(f"{task.name}-{attack}"),
        title=f"{task.name}, no attack" if attack == task.clean else f"{task.name} under {attack}",
        section="robustness",
        columns=columns,
        rows=tuple(
            Row(label=label, cells=(*cells, against.get(label, Cell())), flags=flags(rows[label].records.values()))
            for label, cells in lines.items()
        ),
    )


def summary(task: Task) -> Panel:
    """A row a defense: without attack, under each attack, and the worst of each seed over one fixed set of attacks."""
    open_attacks = [name for name in task.attacks if not task.targeted[name]]
    targeted = [name for name in task.attacks if task.targeted[name]]
    columns = [ACCURACY.model_copy(update={"name": "clean", "title": "no attack %"})]
    columns.append(
        Column(
            name="clean_cost",
            title=f"no attack, against {task.baseline} %",
            meaning=f"Accuracy without attack, less that of {task.baseline}, seed by seed: below 0, a defense costs.",
            percent=True,
            higher_is_better=True,
        )
    )
    figures: list[Mapping[str, BySeed]] = [_by_defense(task, task.clean, "accuracy")]
    clean = figures[0].get(task.baseline, {})
    figures.append({name: _less(values, clean) for name, values in figures[0].items()})
    for attack in open_attacks:
        columns.append(ACCURACY.model_copy(update={"name": attack, "title": f"{attack} %"}))
        figures.append(_by_defense(task, attack, "accuracy"))
    if open_attacks:
        columns.append(
            ACCURACY.model_copy(
                update={
                    "name": "worst_accuracy",
                    "title": "worst untargeted %",
                    "meaning": f"The lowest accuracy of each seed over {_listed(open_attacks)}, then the mean. Attacks "
                    "that aim at one class have columns of their own.",
                }
            )
        )
        figures.append({name: worst_accuracy(task, name) for name in task.defenses})
    for attack in targeted:
        columns.append(_excess_column(attack, f"{attack}, excess %", task.baseline))
        figures.append({name: excess(task, attack, name) for name in task.defenses})
    if len(targeted) > 1:
        columns.append(_excess_column("worst_excess", "worst excess %", task.baseline))
        figures.append({name: worst_excess(task, name) for name in task.defenses})
    columns.append(
        Column(
            name="honest_excluded",
            title="honest excluded",
            meaning="Honest participants whom the defense no longer lets take part at the end, over all attacks.",
            digits=1,
            higher_is_better=False,
        )
    )
    promised = {name: promises(_records(task, name)) for name in task.defenses}
    if any(promised.values()):
        columns.append(EPSILON)
    lines: dict[str, list[Cell]] = {name: [] for name in task.defenses}
    sets = [[task.clean], [task.clean], *([name] for name in open_attacks)]
    sets += [open_attacks] * bool(open_attacks) + [[name] for name in targeted] + [targeted] * (len(targeted) > 1)
    plain = {"clean", "worst_accuracy", *open_attacks}
    for place, (column, by_defense, attacks) in enumerate(zip(columns, figures, sets, strict=False)):
        for name, cells in lines.items():
            # Where a figure is less the attack-free baseline's, that one's troubles are its own.
            beside = [] if column.name in plain else [(task.clean, task.baseline)]
            cells.append(_place(task, by_defense.get(name, {}), [(attack, name) for attack in attacks], beside))
        if column.name != "clean_cost":
            sound = {name: values for name, values in by_defense.items() if lines[name][place].mean is not None}
            _mark(lines, place, sound, task.seeds, highest=bool(column.higher_is_better))
    for name, cells in lines.items():
        cells.append(_excluded(task, name))
        if any(promised.values()):
            own = Cell(mean=max(promised[name])).behind(_records(task, name)) if promised[name] else Cell(text="none")
            cells.append(own)
    return Panel(
        name=slug(f"{task.name}-summary"),
        title=f"{task.name}: all attacks",
        section="robustness",
        columns=tuple(columns),
        rows=tuple(
            Row(label=name, cells=tuple(cells), flags=flags(_records(task, name))) for name, cells in lines.items()
        ),
        notes=(
            "Where attackers can behave in several ways in an exchange, each seed counts with its worst strategy. "
            f"Excess: attack success less that of {task.baseline} without attack, same seed.",
        ),
    )


def worst_accuracy(task: Task, defense: str) -> dict[int, float]:
    """By seed, the lowest accuracy over untargeted attacks; only seeds that have all of them."""
    attacks = [name for name in task.attacks if not task.targeted[name]]
    return worst(task.figures(attack, defense, "accuracy") for attack in attacks)


def excess(task: Task, attack: str, defense: str) -> dict[int, float]:
    """By seed, the success of a targeted attack beyond what the attack-free model does anyway."""
    free = task.figures(task.clean, task.baseline, SUCCESS.name, highest=True)
    return _less(task.figures(attack, defense, SUCCESS.name, highest=True), free)


def worst_excess(task: Task, defense: str) -> dict[int, float]:
    """By seed, the highest excess over targeted attacks."""
    attacks = [name for name in task.attacks if task.targeted[name]]
    return worst((excess(task, attack, defense) for attack in attacks), highest=True)


def controls(task: Task) -> list[str]:
    """What is there only to compare attacks with."""
    return [name for name in task.attacks if _attack_name(task, name) == CONTROL]


def weaker_than_control(task: Task) -> list[str]:
    """Untargeted attacks that take less accuracy from the baseline than noise of honest length does."""
    found_controls = controls(task)
    if not found_controls:
        return []
    control = task.figures(found_controls[0], task.baseline, "accuracy")
    found = []
    for attack in task.attacks:
        if task.targeted[attack] or attack in found_controls:
            continue
        difference = paired(task.figures(attack, task.baseline, "accuracy"), control)
        if difference and difference.estimate.mean > 0:
            found.append(
                f"{task.name}: {attack} takes less accuracy from {task.baseline} than {found_controls[0]} does (by the "
                "mean), which only sends noise: it is a weak attack here"
            )
    return found


def promises(records: Iterable[Record]) -> list[float]:
    """The epsilons that a defense promised at the end of its runs, if any."""
    told = [(record.facts.get("guarantee") or {}).get("epsilon") for record in records]
    return [float(value) for value in told if isinstance(value, float | int)]


# Places in a table


def _cell(runs: Runs, metric: Column, seeds: set[int]) -> Cell:
    values = runs.values(metric.name)
    trouble = runs.trouble(seeds)
    cell = Cell(text=trouble or "none") if trouble or not values else Cell.of(estimate(list(values.values())))
    return cell.behind(runs.records.values())


def _place(task: Task, values: BySeed, places: Sequence[tuple[str, str]], beside: Sequence[tuple[str, str]]) -> Cell:
    troubles = [told for attack, defense in places if (told := task.trouble(attack, defense))]
    others = [told for attack, defense in beside if (told := task.trouble(attack, defense))]
    if not (troubles or others) and values:
        cell = Cell.of(estimate(list(values.values())))
    elif len(places) > 1 and troubles:
        cell = Cell(text="diverged" if any("diverged" in told for told in troubles) else "incomplete")
    else:
        cell = Cell(text=troubles[0] if troubles else "no attack-free baseline" if others else "none")
    runs = [of for attack, defense in (*places, *beside) for of in task.strategies(attack, defense)]
    return cell.behind(record for of in runs for record in of.records.values())


def _excluded(task: Task, defense: str) -> Cell:
    own = [record for record in _records(task, defense) if isinstance(record.facts.get("honest_excluded"), int)]
    counts = [float(record.facts["honest_excluded"]) for record in own]
    return Cell(mean=sum(counts) / len(counts)).behind(own) if own else Cell()


def _mark(
    lines: Mapping[str, list[Cell]], place: int, figures: Mapping[str, BySeed], seeds: set[int], *, highest: bool
) -> None:
    complete = {name: values for name, values in figures.items() if set(values) == seeds}
    for name, mark in leaders(complete, highest=highest).items():
        lines[name][place] = lines[name][place].model_copy(update={"mark": mark})


def _against(
    rows: Mapping[str, Runs], baseline: str, metric: Column, left_out: set[str], seeds: set[int]
) -> dict[str, Cell]:
    """Paired differences from the baseline under the same attack, Holm-corrected over the other rows."""
    if baseline not in rows:
        return {}
    theirs = rows[baseline].values(metric.name)
    found = {
        label: difference
        for label, runs in rows.items()
        if label != baseline
        and label not in left_out
        # Seeds that are left when others failed would flatter.
        and not runs.trouble(seeds)
        and not rows[baseline].trouble(seeds)
        and (difference := paired(runs.values(metric.name), theirs))
    }
    tested = [label for label, difference in found.items() if difference.p is not None]
    ps = dict(zip(tested, holm([found[label].p or 0.0 for label in tested]), strict=True))
    return {
        label: Cell.of(difference.estimate, note=f"p {_p(ps[label])}" if label in ps else "").behind(
            record for of in (rows[label], rows[baseline]) for record in of.records.values()
        )
        for label, difference in found.items()
    }


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _difference_column(metric: Column, baseline: str) -> Column:
    return metric.model_copy(
        update={
            "name": f"{metric.name}_against_{baseline}",
            "title": f"{metric.title} against {baseline}",
            "meaning": f"Less that of {baseline} with the same seeds; p by paired t tests, Holm-corrected.",
        }
    )


def _excess_column(name: str, title: str, baseline: str) -> Column:
    meaning = f"Attack success beyond that of {baseline} without attack, seed by seed."
    return SUCCESS.model_copy(update={"name": name, "title": title, "meaning": meaning})


def _by_defense(task: Task, attack: str, metric: str) -> dict[str, dict[int, float]]:
    return {name: task.figures(attack, name, metric) for name in task.defenses}


def _less(values: BySeed, other: BySeed) -> dict[int, float]:
    return {seed: value - other[seed] for seed, value in values.items() if seed in other}


def _records(task: Task, defense: str) -> list[Record]:
    return [
        record
        for of_attack in task.runs.values()
        for runs in of_attack.get(defense, {}).values()
        for record in runs.records.values()
    ]


def _attack_name(task: Task, label: str) -> str:
    runs = next(iter(next(iter(task.runs[label].values())).values()))
    name: str = next(iter(runs.records.values())).configuration["attack"]["name"]
    return name


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

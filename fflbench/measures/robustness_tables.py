"""Tables of robustness over all attacks: worst cases, excess success, cost without attack, and weak attacks."""

from collections.abc import Iterable, Sequence

from fflbench.plugin import (
    Column,
    FilledColumn,
    Metric,
    Record,
    Table,
    TableCell,
    baseline_runs_without_attack,
    paired_difference,
    record_groups,
    slug,
    worst_case_column,
)

CONTROL = "noise-control"
"""Attack that only sends noise with the norm of an honest update, to compare others with."""

PROMISED = (
    "Differential privacy of the updates of the participant selected most often, by an accountant; the largest "
    "over seeds. The smaller the better; above ten or so it guarantees little."
)
EPSILON = Column(name="epsilon", title="epsilon", meaning=PROMISED, digits=1, higher_is_better=False)
LEFT_OUT = "Honest participants that the defense excludes at the end, over all attacks."
EXCLUDED = Column(name="honest_excluded", title="honest excluded", meaning=LEFT_OUT, digits=1, higher_is_better=False)


def targeted_attacks(group: record_groups.RecordGroup) -> list[str]:
    """Return attacks that target one class."""
    with_goal = {record_groups.attack_label(record) for record in group.records if record.facts.get("targeted")}
    return [name for name in group.attacks if name in with_goal and name != group.no_attack]


def untargeted_attacks(group: record_groups.RecordGroup) -> list[str]:
    """Return attacks on the whole model."""
    return [name for name in group.attacks if name not in (group.no_attack, *targeted_attacks(group))]


def summary_columns(group: record_groups.RecordGroup) -> list[FilledColumn]:
    """Return columns of the worst case, attackers' gains, the cost without attack, and excluded participants."""
    accuracy, success = (_metric_by_name(group, name) for name in ("accuracy", "attack_success_rate"))
    aimed, others, free = (
        targeted_attacks(group),
        untargeted_attacks(group),
        group.runs(group.baseline, group.no_attack),
    )
    filled = []
    if others:
        meaning = f"The lowest accuracy of each seed over {_join_with_and(others)}, then the mean."
        column = Column.from_metric(accuracy, name="worst_accuracy", title="worst untargeted", meaning=meaning)
        filled.append(worst_case_column(group, accuracy, column, others))
    elif group.no_attack:
        column = Column.from_metric(accuracy, name="clean", title="accuracy without attack")
        filled.append(worst_case_column(group, accuracy, column, [group.no_attack]))
    meaning = f"Attack success beyond that of {group.baseline} without attack, seed by seed."
    by_chance = {name: baseline_runs_without_attack(group, name) for name in aimed}
    excesses = [(attack, f"{attack}, excess", [attack]) for attack in aimed]
    excesses += [("worst_excess", "worst excess", aimed)] * (len(aimed) > 1)
    for name, title, attacks in excesses:
        column = Column.from_metric(success, name=name, title=title, meaning=meaning, low=-1.0)
        filled.append(worst_case_column(group, success, column, attacks, by_chance))
    if group.no_attack:
        title = f"no attack, against {group.baseline}"
        meaning = f"Accuracy without attack, less that of {group.baseline}, seed by seed: below 0, a defense costs."
        column = Column.from_metric(accuracy, name="clean_cost", title=title, meaning=meaning, low=-1.0)
        filled.append(worst_case_column(group, accuracy, column, [group.no_attack], {group.no_attack: free}))
    return [*filled, *_exclusion_and_epsilon_columns(group)]


def _metric_by_name(group: record_groups.RecordGroup, name: str) -> Metric:
    return next(metric for metric in group.measure.metrics if metric.name == name)


def _exclusion_and_epsilon_columns(group: record_groups.RecordGroup) -> Iterable[FilledColumn]:
    """Return columns of excluded participants and of privacy guarantees, where a defense reports them."""
    excluded, promised = {}, {}
    for name in group.rows:
        records = group.records_of(defense=name)
        counted = [record for record in records if isinstance(record.facts.get("honest_excluded"), int)]
        if counted:
            mean = sum(record.facts["honest_excluded"] for record in counted) / len(counted)
            excluded[name] = TableCell(mean=mean).with_records(counted)
        if epsilons := guaranteed_epsilons(records):
            promised[name] = TableCell(mean=max(epsilons)).with_records(records)
    if excluded:
        yield FilledColumn(EXCLUDED, excluded)
    if promised:
        yield FilledColumn(EPSILON, {name: promised.get(name, TableCell(text="none")) for name in group.rows})


def guaranteed_epsilons(records: Iterable[Record]) -> list[float]:
    """Return the epsilons that a defense guarantees at the end of its runs, if any."""
    epsilons = [(record.facts.get("guarantee") or {}).get("epsilon") for record in records]
    return [float(value) for value in epsilons if isinstance(value, float | int)]


def joined_columns(records: Sequence[Record]) -> list[FilledColumn]:
    """Return the columns of the joined table: worst case, worst excess, clean cost and epsilon."""
    (group,) = record_groups.group_records(records)
    aimed = targeted_attacks(group)
    left_out = {EXCLUDED.name, *(aimed if len(aimed) > 1 else ())}
    return [each for each in summary_columns(group) if each.column.name not in left_out]


def summary_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Return one summary table per task."""
    for group in record_groups.group_records(records):
        yield Table.from_columns(
            summary_columns(group),
            rows=group.rows,
            flags=lambda name, group=group: group.measure.row_flags(group.records_of(defense=name)),  # type: ignore[misc]
            name=slug(f"{group.task}-summary"),
            title=f"{group.task}: worst cases over all attacks",
            section=group.measure.section,
            notes=(
                "Where participants deviate from a protocol in several ways, each seed counts with the worst of them. "
                f"Excess: attack success less that of {group.baseline} without attack, same seed.",
            ),
        )


def weak_attack_flags(records: Sequence[Record]) -> Iterable[str]:
    """Return untargeted attacks that reduce the baseline's accuracy less than noise of the same norm does."""
    for group in record_groups.group_records(records):
        others = untargeted_attacks(group)
        names = {record_groups.attack_label(record): record.configuration["attack"]["name"] for record in group.records}
        control = next((name for name in others if names[name] == CONTROL), "")
        if not control and (others or targeted_attacks(group)):
            yield f"{group.task}: {CONTROL} was not run, so weak attacks cannot be distinguished from strong ones"
        for attack in others if control else ():
            own, noise = (group.runs(group.baseline, name).values("accuracy") for name in (attack, control))
            difference = paired_difference(own, noise)
            if names[attack] != CONTROL and difference and difference.estimate.mean > 0:
                yield (
                    f"{group.task}: {attack} takes less accuracy from {group.baseline} than {control} does (by the "
                    "mean), which only sends noise: it is a weak attack here"
                )


def _join_with_and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

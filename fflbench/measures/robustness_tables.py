"""Tables of robustness over all attacks: worst cases, excess success, cost without attack, and weak attacks."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from fflbench.measures import tolerated_shares
from fflbench.plugin import (
    Column,
    FilledColumn,
    Metric,
    Record,
    Table,
    TableCell,
    baseline_runs_without_attack,
    best_first,
    defense_parts,
    estimate_mean,
    paired_difference,
    record_groups,
    slug,
    worst_case_column,
)

MOST_NAMED = 6
"""Attacks that a note on the setting names, at most."""
MOST_SHARES = 3
"""Shares of attackers that a note on the setting lists, at most."""
CONTROL = "noise-control"
"""Attack that only sends noise with the norm of an honest update, to compare others with."""

PROMISED = (
    "Differential privacy of the updates of the participant selected most often, by an accountant; the largest "
    "over seeds. The smaller the better; above ten or so it guarantees little."
)
EPSILON = Column(name="epsilon", title="epsilon", meaning=PROMISED, digits=1, higher_is_better=False)
OTHER_F = (
    "The lowest mean accuracy with another f than the row's, under the attacks that were run with it; both are named."
)
MISJUDGED = "f"
LEFT_OUT = "Honest participants that the defense excludes at the end, over all attacks."
COUNTED = "Number of untargeted attacks behind the worst case; each deviation from a protocol counts."
ATTACKS = Column(name="attacks", title="attacks", meaning=COUNTED, digits=0, seeded=False)
EXCLUDED = Column(name="honest_excluded", title="honest excluded", meaning=LEFT_OUT, digits=1, higher_is_better=False)


def targeted_attacks(group: record_groups.RecordGroup) -> list[str]:
    """Return attacks that target one class."""
    with_goal = {record_groups.attack_label(record) for record in group.records if record.facts.get("targeted")}
    return [name for name in group.attacks if name in with_goal and name != group.no_attack]


def untargeted_attacks(group: record_groups.RecordGroup) -> list[str]:
    """Return attacks on the whole model."""
    return [name for name in group.attacks if name not in (group.no_attack, *targeted_attacks(group))]


def _attacks_with_several_shares(group: record_groups.RecordGroup) -> list[str]:
    """Return attacks that the table of tolerated shares compares, whose worst case would be that of the largest."""
    labels = {sweep.label for sweep in tolerated_shares.share_sweeps(group)}
    swept = {record_groups.attack_label(each) for each in group.records if _attack_without_value(each) in labels}
    return [name for name in group.attacks if name in swept]


def _has_worst_cases(group: record_groups.RecordGroup) -> bool:
    """Return whether any attack has a single share of attackers."""
    return set(_attacks_with_several_shares(group)) != set(group.attacks)


def summary_columns(group: record_groups.RecordGroup) -> list[FilledColumn]:
    """Return columns of the worst case, attackers' gains, the cost without attack, and excluded participants."""
    accuracy, success = (_metric_by_name(group, name) for name in ("accuracy", "attack_success_rate"))
    left_out = _attacks_with_several_shares(group)
    aimed, others = (
        [name for name in names if name not in left_out]
        for names in (targeted_attacks(group), untargeted_attacks(group))
    )
    free = group.runs(group.baseline, group.no_attack)
    filled = []
    if others:
        meaning = (
            f"The lowest mean accuracy over seeds under {_join_with_and(others)}; its interval takes the choice of the "
            "lowest into account. Runs that diverged count with an accuracy of 0."
        )
        column = Column.from_metric(accuracy, name="worst_accuracy", title="worst untargeted", meaning=meaning)
        worst = worst_case_column(group, accuracy, column, others)
        filled += [*worst.rank_column(), worst, _attack_count_column(group, others)]
        filled += [*_mean_over_attacks_column(group, accuracy, others), *_misjudged_f_column(group, accuracy)]
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


def _attack_count_column(group: record_groups.RecordGroup, attacks: Sequence[str]) -> FilledColumn:
    """Return the column of the numbers of attacks behind worst cases, each deviation from a protocol counted."""
    runs = {name: record_groups.attack_runs_by_name(group, name, attacks, [""]).values() for name in group.rows}
    counts = {
        name: TableCell(mean=len(own)).with_records(record for each in own for record in each.records.values())
        for name, own in runs.items()
        if own
    }
    return FilledColumn(ATTACKS, counts)


def _mean_over_attacks_column(
    group: record_groups.RecordGroup, accuracy: Metric, attacks: Sequence[str]
) -> Iterable[FilledColumn]:
    """Yield the column of the mean accuracy over attacks, with the mean of all deviations for each of them."""
    if len(attacks) < 2:
        return
    meaning = "Mean accuracy over all untargeted attacks and deviations; runs that diverged count with 0."
    column = Column.from_metric(accuracy, name="mean_accuracy", title="mean over attacks", meaning=meaning)
    cells, values = {}, {}
    for name in group.rows:
        by_attack = [record_groups.attack_runs_by_name(group, name, [attack], [""]) for attack in attacks]
        runs = [each for by_name in by_attack for each in by_name.values()]
        complete = all(by_attack) and not any(each.problem(group.seeds, divergence=False) for each in runs)
        by_seed = [each.values(accuracy.name, accuracy.diverged) for each in runs]
        values[name] = {seed: fmean(each[seed] for each in by_seed) for seed in sorted(group.seeds)} if complete else {}
        cell = (
            TableCell.from_estimate(estimate_mean(list(values[name].values())), column)
            if complete
            else TableCell(text="incomplete")
        )
        cells[name] = cell.with_records(record for each in runs for record in each.records.values())
    yield FilledColumn(column, cells).with_marks(values, group.seeds)


def _misjudged_f_column(group: record_groups.RecordGroup, accuracy: Metric) -> Iterable[FilledColumn]:
    """Yield the column of the worst case of defenses that were given another f than in their rows, if any were."""
    by_defense: dict[str, list[Record]] = {}
    for record in group.variants:
        swept = record.sweep["defense"]
        if swept["parameter"] == MISJUDGED and not record.facts.get("targeted"):
            attack = f"f = {swept['value']}, {record_groups.attack_label(record)}"
            labels = record.labels | {"defense": swept["label"], "attack": attack}
            by_defense.setdefault(swept["label"], []).append(record.model_copy(update={"labels": labels, "sweep": {}}))
    column = Column.from_metric(accuracy, name="misjudged_f", title="f misjudged", meaning=OTHER_F)
    cells: dict[Any, TableCell] = {}
    for records in by_defense.values():
        own = record_groups.RecordGroup(group.measure, group.title, group.task, tuple(records))
        cells |= worst_case_column(own, accuracy, column, own.attacks).cells
    if cells:
        yield FilledColumn(column, cells)


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
    """Return the columns of the joined table: worst case, worst excess, clean cost and epsilon, or tolerated shares."""
    (group,) = record_groups.group_records(records)
    if not _has_worst_cases(group):
        return tolerated_shares.tolerated_share_columns(group)
    aimed = targeted_attacks(group)
    left_out = {EXCLUDED.name, ATTACKS.name, "mean_accuracy", "misjudged_f", *(aimed if len(aimed) > 1 else ())}
    return [each for each in summary_columns(group) if each.column.name not in left_out]


def summary_tables(records: Sequence[Record]) -> Iterable[Table]:
    """Return one summary table per task, and one of tolerated shares where attacks have several."""
    for group in record_groups.group_records(records):
        if tolerated_shares.share_sweeps(group):
            yield tolerated_shares.tolerated_share_table(group, [setting_line(group.records)])
        if not _has_worst_cases(group):
            continue
        columns = summary_columns(group)
        yield Table.from_columns(
            columns,
            rows=best_first(group.rows, columns),
            flags=lambda name, group=group: group.measure.row_flags(group.records_of(defense=name)),  # type: ignore[misc]
            name=slug(f"{group.task}-summary"),
            title=f"{group.task}: worst cases over all attacks",
            section=group.measure.section,
            notes=(
                "Where participants deviate from a protocol in several ways, the worst of them counts. "
                f"Excess: attack success less that of {group.baseline} without attack, same seed.",
                setting_line(group.records),
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


def setting_line(records: Sequence[Record]) -> str:
    """Return participants, attackers, f, rounds, seeds and attacks of records in one line."""
    assumed = [
        part.parameters.get("f") for record in records for part in defense_parts(record.configuration["defense"])
    ]
    shares = [record.configuration["attack"]["parameters"].get("share") for record in records]
    attackers = sorted({share for share in shares if isinstance(share, int | float)})
    attacks = list(dict.fromkeys(_attack_without_value(record) for record in records))
    seeds = sorted({record.seed for record in records})
    parts = [
        _task_values(records, "participants", "{} participants"),
        _task_values(records, "per_round", "{} in each round"),
        _task_values(records, "rounds", "{} rounds"),
        _attackers_text(attackers),
        f"f = {' or '.join(sorted({str(f) for f in assumed if f is not None}))}" if any(assumed) else "",
        f"seeds {', '.join(map(str, seeds))}" if len(seeds) > 1 else f"seed {seeds[0]}",
        f"attacks: {', '.join(attacks)}" if len(attacks) <= MOST_NAMED else f"{len(attacks)} attacks",
    ]
    return f"Setting: {'; '.join(filter(None, parts))}."


def _attack_without_value(record: Record) -> str:
    """Return the label of a record's attack, without the value of a swept parameter."""
    swept = record.sweep.get("attack")
    return str(swept["label"]) if swept else record_groups.attack_label(record)


def _attackers_text(shares: Sequence[float]) -> str:
    """Return the shares of attackers, in ascending order, as a text: a range where there are many."""
    hostile = [f"{100 * share:g}%" for share in shares if share > 0]
    if len(hostile) > MOST_SHARES:
        return f"{100 * shares[0]:g}% to {hostile[-1]} of them attackers"
    return f"{' or '.join(hostile)} of them attackers" if hostile else ""


def _task_values(records: Sequence[Record], name: str, text: str) -> str:
    """Return a text with the values of a task's parameter, or an empty one where records do not have it."""
    values = dict.fromkeys(record.configuration["task"]["parameters"].get(name) for record in records)
    numbers = [f"{value:,}" for value in values if isinstance(value, int)]
    return text.format(" or ".join(numbers)) if numbers else ""


def given_to_the_server(record: Record) -> Iterable[str]:
    """Yield what a defense was told that a server may not know: the number of attackers, examples of its own."""
    attackers, task = len(record.facts["attackers"]), record.configuration["task"]["parameters"]
    told = [part.parameters.get("f") for part in defense_parts(record.configuration["defense"])]
    if attackers and attackers in told and task.get("per_round") == task.get("participants"):
        yield f"was given the number of attackers (f = {attackers})"
    if record_groups.needs_root_examples(record):
        yield f"has {task.get('root_examples')} examples at the server"
    for name, (value, default) in record_groups.unlabelled_parameters(record).items():
        yield f"was tuned: {name} = {value} instead of {default}"

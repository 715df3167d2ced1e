"""Tables that every measure gets from the declaration of its metrics.

- one of each headline metric: defenses by attacks, or by observations of the server, with the worst of them;
- one of all metrics for each attack: defenses by metrics.

Attacks that are values of a sweep have tables in `sweep_tables` instead.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from fflbench.metrics import Metric
from fflbench.records.record import Record
from fflbench.report.attacker_knowledge import required_knowledge
from fflbench.report.other_processors import usual_processor
from fflbench.report.record_groups import (
    RecordGroup,
    SeedRuns,
    attack_runs_by_name,
    measure_parameters,
)
from fflbench.report.statistics import estimate_mean, holm_adjusted_p_values, paired_difference
from fflbench.report.sweeps import swept_attacks
from fflbench.report.table_model import Column, FilledColumn, Table, TableCell
from fflbench.report.worst_cases import strongest_attack, strongest_attack_cell, worst_case_column
from fflbench.safe_texts import slug

Key = str | tuple[str, str]
"""Key of a row: its label, or an observation and its label."""
NO_ATTACK_ROW = " (no attack)"
SWEPT = "Attacks with several values of a parameter have tables of their own; the worst is over them, too."
NOT_RUN = " Empty: was not run, mostly since it makes no sense against that defense."


def build_tables(groups: Sequence[RecordGroup]) -> Iterable[Table]:
    """Return the tables of all groups."""
    for group in groups:
        if not group.is_sweep_point:
            yield from headline_tables(group)
        yield from tables_of_all_metrics(group)


# Defenses by attacks or observations


def headline_tables(group: RecordGroup) -> Iterable[Table]:
    """Return one table per headline metric, if there are several columns."""
    for metric in group.measure.metrics:
        if metric.headline and len(names := attacks_or_observations(group, metric)) > 1:
            yield _build_headline_table(group, metric, names)


def attacks_or_observations(group: RecordGroup, metric: Metric) -> list[str]:
    """Return the attacks or observations whose tables show a metric, including those that failed everywhere.

    Attacks that are values of a sweep have tables of their own.
    """
    if not group.measure.observed:
        swept = swept_attacks(group)
        return [name for name in _attacks_with_metric(group, metric) if name not in swept]
    by_observation: dict[str, list[Record]] = {name: [] for name in group.observations}
    for record in group.records:
        by_observation[group.observation(record)].append(record)
    return [name for name, records in by_observation.items() if _has_anything_to_show(metric, records)]


def _attacks_with_metric(group: RecordGroup, metric: Metric) -> list[str]:
    return [name for name in group.attacks if metric in group.measure.shown_metrics(group.records_of(attack=name))]


def headline_table_name(group: RecordGroup, metric: Metric) -> str:
    """Return the name of a headline metric's table."""
    return slug(f"{group.heading}-{metric.name}")


def _build_headline_table(group: RecordGroup, metric: Metric, attacks_or_observations_shown: Sequence[str]) -> Table:
    observed = bool(group.measure.observed)
    filled = []
    for name in attacks_or_observations_shown:
        column = _attack_or_observation_column(group, metric, name)
        cells = {defense: column_cell(group, metric, column, defense, name) for defense in group.rows}
        filled.append(FilledColumn(column, cells))
    compared = attacks_or_observations_shown if observed else _attacks_with_metric(group, metric)
    hostile = [name for name in compared if name != group.no_attack]
    if metric.higher_is_better is not None and len(hostile) > 1 and not group.is_demonstration:
        filled.append(_worst_attack_column(group, metric, hostile))
    if metric.floor:
        column = Column.from_metric(
            metric, name=metric.floor, title="floor", meaning="Value expected by chance.", higher_is_better=None
        )
        filled.append(
            FilledColumn(
                column, {defense: _chance_level_cell(group, metric, column, defense) for defense in group.rows}
            )
        )
    empty = any(cell == TableCell() for each in filled for cell in each.cells.values())
    return Table.from_columns(
        filled,
        name=headline_table_name(group, metric),
        title=f"{group.heading}: {metric.title} by {'observation' if observed else 'attack'}",
        section=group.measure.section,
        flags=lambda defense: _row_flags(group, group.records_of(defense=defense)),
        notes=(
            f"{metric.meaning}{_strongest_attack_note(group)}{NOT_RUN * empty}",
            *[SWEPT] * (len(compared) > len(attacks_or_observations_shown)),
            *_setting_notes(group),
        ),
    )


def _strongest_attack_note(group: RecordGroup) -> str:
    if not group.measure.observed:
        several = any(len([way for way in ways if way]) > 1 for ways in group.rows.values())
        return " Of several deviations from a protocol the worst by the mean over seeds is shown." * several
    attacks = ", ".join(group.attacks)
    return f" Of the attacks ({attacks}) the strongest by the mean over seeds, named where there are several."


def _attack_runs(group: RecordGroup, defense: str, attack_or_observation: str) -> dict[str, SeedRuns]:
    if group.measure.observed:
        return attack_runs_by_name(group, defense, group.attacks, [attack_or_observation])
    return attack_runs_by_name(group, defense, [attack_or_observation], [""])


def column_cell(
    group: RecordGroup, metric: Metric, column: Column, defense: str, attack_or_observation: str
) -> TableCell:
    """Return the cell of a defense under an attack, or of the strongest attack by an observation."""
    return strongest_attack_cell(metric, column, _attack_runs(group, defense, attack_or_observation), group.seeds)


def _attack_or_observation_column(group: RecordGroup, metric: Metric, attack_or_observation: str) -> Column:
    if not group.measure.observed:
        title = "no attack" if attack_or_observation == group.no_attack else attack_or_observation
        known = " and ".join(required_knowledge(group.records_of(attack=attack_or_observation)[0]))
        meaning = f"{metric.meaning} The attackers must know: {known}." if known else metric.meaning
        return Column.from_metric(metric, name=attack_or_observation, title=title, meaning=meaning)
    facts = next(
        (
            record.facts
            for record in group.records
            if record.facts and group.observation(record) == attack_or_observation
        ),
        {},
    )
    caution = f" ({facts['caution']})" if facts.get("caution") else ""
    observation = str(facts.get(group.measure.observed, attack_or_observation))
    knows = " and ".join(facts.get("knows", ()))
    meaning = f"{observation[:1].upper()}{observation[1:]}." + (f" The attacker must know: {knows}." if knows else "")
    # A defense that withstands one observation may not withstand the next.
    return Column.from_metric(
        metric, name=attack_or_observation, title=f"{attack_or_observation}{caution}", meaning=meaning, ranked=False
    )


def _worst_attack_column(
    group: RecordGroup, metric: Metric, attacks_or_observations_shown: Sequence[str]
) -> FilledColumn:
    """Return the worst mean over attacks, or the strongest attack and observation by the mean."""
    if not group.measure.observed:
        meaning = "The worst mean over attacks, with the name of the attack."
        column = Column.from_metric(metric, name="worst", title="worst", meaning=meaning)
        return worst_case_column(group, metric, column, attacks_or_observations_shown)
    meaning = "Whatever attack and observation is worst for the defense by the mean over seeds."
    column = Column.from_metric(metric, name="worst", title="worst known", meaning=meaning)
    cells, values = {}, {}
    for defense in group.rows:
        every = attack_runs_by_name(group, defense, group.attacks, attacks_or_observations_shown)
        best, problem = strongest_attack(metric, every, group.seeds)
        cells[defense] = strongest_attack_cell(metric, column, every, group.seeds)
        values[defense] = {} if problem else every[best].values(metric.name)
    return FilledColumn(column, cells).with_marks(values, group.seeds)


def baseline_runs_without_attack(group: RecordGroup, attack: str) -> SeedRuns:
    """Return the baseline's runs without attack, with metrics comparable to those under an attack."""
    attacked = group.records_of(attack=attack)[0]
    clean = group.runs(group.baseline, group.no_attack).records.values()
    return SeedRuns.from_records(group.measure.score_clean_for_attack(record, attacked) for record in clean)


def _chance_level_cell(group: RecordGroup, metric: Metric, column: Column, defense: str) -> TableCell:
    by_seed: dict[int, list[float]] = {}
    own = [record for record in group.records_of(defense=defense) if record.status == "done"]
    for record in own:
        value = record.metrics.get(metric.floor)
        if isinstance(value, int | float):
            by_seed.setdefault(record.seed, []).append(value)
    means = [sum(values) / len(values) for values in by_seed.values()]
    return TableCell.from_estimate(estimate_mean(means), column).with_records(own) if means else TableCell()


def _row_flags(group: RecordGroup, records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group.measure.row_flags([record for record in records if record.status == "done"])))


def _setting_notes(group: RecordGroup) -> list[str]:
    """Return notes on the parameters that all records of a table share, and the measure's own notes."""
    common = {
        name: value for name, value in measure_parameters(group.records[0]).items() if name != group.measure.observed
    }
    with_them = [f"With {', '.join(f'{name} = {value}' for name, value in common.items())}."] if common else []
    shared = [f"Rows that share {group.shared_parts} share these cells."] if group.shared_parts else []
    done = [record for record in group.records if record.status == "done"]
    return [*with_them, *shared, *(group.measure.table_notes(done) if done else ())]


# Defenses by metrics


def tables_of_all_metrics(group: RecordGroup) -> Iterable[Table]:
    """Return one table of all metrics per attack that is not a value of a sweep."""
    swept = swept_attacks(group)
    for attack in group.attacks:
        if attack not in swept:
            yield _table_of_all_metrics(group, attack)


def _table_of_all_metrics(group: RecordGroup, attack: str) -> Table:
    records, observed = group.records_of(attack=attack), bool(group.measure.observed)
    metrics = [metric for metric in group.measure.shown_metrics(records) if _has_anything_to_show(metric, records)]
    places: dict[Key, SeedRuns] = {
        (observation, row) if observed else row: group.runs(row, attack, observation)
        for observation in group.observations
        for row in group.defenses
        if (row, attack, observation) in group.records_by_cell
    }
    filled = []
    for metric in metrics:
        column = Column.from_metric(metric, ranked=not observed)
        cells = {key: runs.cell(metric, column, group.seeds, _chance_level_note(metric, column, runs))
                 for key, runs in places.items()}  # fmt: skip
        each = FilledColumn(column, cells)
        if not observed and not group.measure.alone:
            each = each.with_marks({key: runs.values(metric.name) for key, runs in places.items()}, group.seeds)
        filled.append(each)
    if not observed and not group.measure.alone:
        filled += [
            each
            for metric in metrics
            if metric.headline
            for each in differences_from_baseline(
                metric, places, group.baseline, group.runs(group.baseline, attack), group.seeds
            )
        ]
    filled = _add_row_without_attack(group, attack, metrics, filled)
    under = f" under {attack}" if attack else ""
    return Table.from_columns(
        filled,
        flags=lambda key: _row_flags(group, list(places[key].records.values()) if key in places else []),
        # The row without attack, above those under one, is the baseline's.
        defense=lambda key: group.defenses.get(key[-1] if observed else key, group.baseline),
        name=slug(f"{group.heading}-{attack or 'all'}"),
        title=f"{group.heading}, no attack" if attack and attack == group.no_attack else f"{group.heading}{under}",
        section=group.measure.section,
        keys=("observation", "defense") if observed else ("defense",),
        notes=(*_setting_notes(group), *_machine_note(group)),
    )


def _chance_level_note(metric: Metric, column: Column, runs: SeedRuns) -> str:
    values = runs.values(metric.floor)
    return f"{column.format_value(fmean(values.values()))} by chance" if values else ""


def _has_anything_to_show(metric: Metric, records: Sequence[Record]) -> bool:
    """Return whether a column would show anything: a value, or that all failed."""
    done = [record for record in records if record.status == "done"]
    return not done or any(record.metrics.get(metric.name) is not None for record in done)


def _add_row_without_attack(
    group: RecordGroup, attack: str, metrics: Sequence[Metric], filled: Sequence[FilledColumn]
) -> list[FilledColumn]:
    """Add a row of the baseline without attack, above those under one."""
    if attack == group.no_attack or not group.no_attack:
        return list(filled)
    runs = baseline_runs_without_attack(group, attack)
    if not runs.records:
        return list(filled)
    key = f"{group.baseline}{NO_ATTACK_ROW}"
    first = [runs.cell(metric, each.column, group.seeds) for metric, each in zip(metrics, filled, strict=False)]
    first += [TableCell()] * (len(filled) - len(first))
    return [FilledColumn(each.column, {key: cell, **each.cells}) for each, cell in zip(filled, first, strict=True)]


def differences_from_baseline(
    metric: Metric,
    runs_by_row: Mapping[Key, SeedRuns],
    baseline: str,
    baseline_runs: SeedRuns,
    seeds: set[int],
    *,
    count_diverged: bool = False,
) -> Iterable[FilledColumn]:
    """Return paired differences from the baseline under the same attack, Holm-corrected."""
    diverged = metric.diverged if count_diverged else None
    # The seeds that are left when others failed would be biased.
    if len(seeds) < 2 or len(runs_by_row) < 2 or baseline_runs.problem(seeds, divergence=diverged is None):
        return
    column = Column.from_metric(
        metric,
        name=f"{metric.name}_against_{baseline}",
        title=f"{metric.title} against {baseline}",
        meaning=f"Less that of {baseline} with the same seeds; p by paired t tests, Holm-corrected.",
        low=-1.0 if metric.is_share else None,
    )
    differences = {
        key: difference
        for key, runs in runs_by_row.items()
        if key != baseline
        and not runs.problem(seeds, divergence=diverged is None)
        and (
            difference := paired_difference(
                runs.values(metric.name, diverged), baseline_runs.values(metric.name, diverged)
            )
        )
    }
    tested = [key for key, difference in differences.items() if difference.p is not None]
    ps = dict(zip(tested, holm_adjusted_p_values([differences[key].p or 0.0 for key in tested]), strict=True))
    yield FilledColumn(
        column,
        {
            key: TableCell.from_estimate(
                difference.estimate, column, f"p {_format_p_value(ps[key])}" if key in ps else ""
            ).with_records([*runs_by_row[key].records.values(), *baseline_runs.records.values()])
            for key, difference in differences.items()
        },
    )


def _format_p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _machine_note(group: RecordGroup) -> list[str]:
    """Return the machine that times were measured on; cells of other machines are marked."""
    if not group.measure.alone:
        return []
    name = usual_processor(group.records, group.reported)
    return [f"Measured on {name}; figures of other machines cannot be compared with these."]

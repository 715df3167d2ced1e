"""Tables that every measure gets from the declaration of its metrics.

- one of each headline metric: defenses by attacks, or by observations of the server, with the worst of them;
- one of all metrics for each attack: defenses by metrics;
- one of each headline metric for each sweep: defenses by the values of the parameter that was varied.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean

from fflbench.metrics import Metric
from fflbench.records.record import Record
from fflbench.report.groups import Group, Runs, candidates, parameters_of, strongest, strongest_cell
from fflbench.report.statistics import BySeed, estimate, holm, paired, worst
from fflbench.report.sweeps import Sweep, sweeps
from fflbench.report.table import Cell, Column, FilledColumn, Table
from fflbench.texts import slug

Key = str | tuple[str, str]
"""Key of a row: its label, or an observation and its label."""
NO_ATTACK_ROW = " (no attack)"
NOT_RUN = " Empty: was not run, mostly since it makes no sense against that defense."


def tables(groups: Sequence[Group]) -> Iterable[Table]:
    """Return the tables of all groups, and of their sweeps."""
    for group in groups:
        if not group.swept:
            yield from pivots(group)
        yield from details(group)
    for sweep in sweeps(groups):
        yield from _sweep_tables(sweep)


# Defenses by attacks or observations


def pivots(group: Group) -> Iterable[Table]:
    """Return one table per headline metric, if there are several columns."""
    for metric in group.measure.metrics:
        if metric.headline and len(names := axis_names(group, metric)) > 1:
            yield _pivot(group, metric, names)


def axis_names(group: Group, metric: Metric) -> list[str]:
    """Return the attacks or observations whose tables show a metric, including those that failed everywhere."""
    if not group.measure.observed:
        return [name for name in group.attacks if metric in group.measure.shown(group.of(attack=name))]
    by_observation: dict[str, list[Record]] = {name: [] for name in group.observations}
    for record in group.records:
        by_observation[group.observation(record)].append(record)
    return [name for name, records in by_observation.items() if _has(metric, records)]


def pivot_name(group: Group, metric: Metric) -> str:
    """Return the name of a headline metric's table."""
    return slug(f"{group.head}-{metric.name}")


def _pivot(group: Group, metric: Metric, names: Sequence[str]) -> Table:
    observed = bool(group.measure.observed)
    filled = []
    for name in names:
        column = _axis_column(group, metric, name)
        cells = {defense: column_cell(group, metric, column, defense, name) for defense in group.rows}
        filled.append(FilledColumn(column, cells))
    hostile = [name for name in names if name != group.clean]
    if metric.higher_is_better is not None and len(hostile) > 1 and not group.demonstrates:
        filled.append(_worst_column(group, metric, hostile))
    if metric.floor:
        column = Column.of(
            metric, name=metric.floor, title="floor", meaning="What chance gives.", higher_is_better=None
        )
        filled.append(FilledColumn(column, {defense: _floor(group, metric, column, defense) for defense in group.rows}))
    empty = any(cell == Cell() for each in filled for cell in each.cells.values())
    return Table.of(
        filled,
        name=pivot_name(group, metric),
        title=f"{group.head}: {metric.title} by {'observation' if observed else 'attack'}",
        section=group.measure.section,
        flags=lambda defense: _flags(group, group.of(defense=defense)),
        notes=(f"{metric.meaning}{_how(group)}{NOT_RUN * empty}", *_setting_notes(group)),
    )


def _how(group: Group) -> str:
    if not group.measure.observed:
        several = any(len([way for way in ways if way]) > 1 for ways in group.rows.values())
        return " Of several deviations from a protocol the worst by the mean over seeds is shown." * several
    attacks = ", ".join(group.attacks)
    return f" Of the attacks ({attacks}) the strongest by the mean over seeds, named where there are several."


def _candidates(group: Group, defense: str, name: str) -> dict[str, Runs]:
    if group.measure.observed:
        return candidates(group, defense, group.attacks, [name])
    return candidates(group, defense, [name], [""])


def column_cell(group: Group, metric: Metric, column: Column, defense: str, name: str) -> Cell:
    """Return the cell of a defense under an attack, or of the strongest attack by an observation."""
    return strongest_cell(metric, column, _candidates(group, defense, name), group.seeds)


def _axis_column(group: Group, metric: Metric, name: str) -> Column:
    if not group.measure.observed:
        title = "no attack" if name == group.clean else name
        return Column.of(metric, name=name, title=title)
    facts = next((record.facts for record in group.records if record.facts and group.observation(record) == name), {})
    caution = f" ({facts['caution']})" if facts.get("caution") else ""
    observation = str(facts.get(group.measure.observed, name))
    knows = " and ".join(facts.get("knows", ()))
    meaning = f"{observation[:1].upper()}{observation[1:]}." + (f" The attacker must know: {knows}." if knows else "")
    # A defense that withstands one observation may not withstand the next.
    return Column.of(metric, name=name, title=f"{name}{caution}", meaning=meaning, ranked=False)


def _worst_column(group: Group, metric: Metric, names: Sequence[str]) -> FilledColumn:
    """Return the worst over attacks seed by seed, or the strongest attack and observation by the mean."""
    if not group.measure.observed:
        meaning = "The worst over attacks of each seed; then the mean."
        column = Column.of(metric, name="worst", title="worst", meaning=meaning)
        return worst_cases(group, metric, column, names)
    meaning = "Whatever attack and observation is worst for the defense by the mean over seeds."
    column = Column.of(metric, name="worst", title="worst known", meaning=meaning)
    cells, values = {}, {}
    for defense in group.rows:
        every = candidates(group, defense, group.attacks, names)
        best, trouble = strongest(metric, every, group.seeds)
        cells[defense] = strongest_cell(metric, column, every, group.seeds)
        values[defense] = {} if trouble else every[best].values(metric.name)
    return FilledColumn(column, cells).with_marks(values, group.seeds)


def worst_cases(
    group: Group,
    metric: Metric,
    column: Column,
    attacks: Sequence[str],
    baseline: Runs | None = None,
    by_attack: Mapping[str, BySeed] | None = None,
) -> FilledColumn:
    """Return the worst case of each defense over attacks and deviations, seed by seed, minus a baseline's if any.

    The baseline's value may differ from attack to attack; `by_attack` gives it then, by seed.
    """
    cells, values = {}, {}
    same = baseline.values(metric.name) if baseline else dict.fromkeys(group.seeds, 0.0)
    theirs = {attack: by_attack[attack] if by_attack else same for attack in attacks}
    for defense in group.rows:
        tried = {name: list(_candidates(group, defense, name).values()) for name in attacks}
        runs = list(chain.from_iterable(tried.values()))
        troubles = [trouble for each in runs if (trouble := each.trouble(group.seeds))]
        troubles += ["missing" for name in attacks if not tried[name]]
        beyond = (_beyond(each.values(metric.name), theirs[name]) for name in attacks for each in tried[name])
        worst_of = worst(beyond, highest=not metric.higher_is_better)
        if troubles:
            several = "diverged" if any("diverged" in trouble for trouble in troubles) else "incomplete"
            cell = Cell(text=troubles[0] if len(attacks) == 1 else several)
        elif any(set(by_seed) != group.seeds for by_seed in theirs.values()):
            cell = Cell(text="no attack-free baseline")
        else:
            values[defense] = worst_of
            cell = Cell.of(estimate(list(values[defense].values())), column) if worst_of else Cell()
        behind = [*runs, *([baseline] if baseline else [])]
        cells[defense] = cell.behind(record for each in behind for record in each.records.values())
    return FilledColumn(column, cells).with_marks(values, group.seeds)


def _beyond(values: BySeed, baseline: BySeed) -> BySeed:
    return {seed: value - baseline[seed] for seed, value in values.items() if seed in baseline}


def _floor(group: Group, metric: Metric, column: Column, defense: str) -> Cell:
    by_seed: dict[int, list[float]] = {}
    own = [record for record in group.of(defense=defense) if record.status == "done"]
    for record in own:
        value = record.metrics.get(metric.floor)
        if isinstance(value, int | float):
            by_seed.setdefault(record.seed, []).append(value)
    means = [sum(values) / len(values) for values in by_seed.values()]
    return Cell.of(estimate(means), column).behind(own) if means else Cell()


def _flags(group: Group, records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(group.measure.row_flags([record for record in records if record.status == "done"])))


def _setting_notes(group: Group) -> list[str]:
    """Return notes on the parameters that all records of a table share, and the measure's own notes."""
    common = {name: value for name, value in parameters_of(group.records[0]).items() if name != group.measure.observed}
    with_them = [f"With {', '.join(f'{name} = {value}' for name, value in common.items())}."] if common else []
    shared = [f"Rows that share {group.shared} share these cells."] if group.shared else []
    done = [record for record in group.records if record.status == "done"]
    return [*with_them, *shared, *(group.measure.notes(done) if done else ())]


# Defenses by metrics


def details(group: Group) -> Iterable[Table]:
    """Return one table of all metrics per attack."""
    for attack in group.attacks:
        yield _detail(group, attack)


def _detail(group: Group, attack: str) -> Table:
    records, observed = group.of(attack=attack), bool(group.measure.observed)
    metrics = [metric for metric in group.measure.shown(records) if _has(metric, records)]
    places: dict[Key, Runs] = {
        (observation, row) if observed else row: group.runs(row, attack, observation)
        for observation in group.observations
        for row in group.defenses
        if (row, attack, observation) in group.places
    }
    filled = []
    for metric in metrics:
        column = Column.of(metric, ranked=not observed)
        cells = {key: runs.cell(metric, column, group.seeds, _by_chance(metric, column, runs))
                 for key, runs in places.items()}  # fmt: skip
        each = FilledColumn(column, cells)
        if not observed and not group.measure.alone:
            each = each.with_marks({key: runs.values(metric.name) for key, runs in places.items()}, group.seeds)
        filled.append(each)
    if not observed and not group.measure.alone:
        filled += [
            each for metric in metrics if metric.headline for each in _differences(group, attack, metric, places)
        ]
    filled = _with_reference(group, attack, metrics, filled)
    under = f" under {attack}" if attack else ""
    return Table.of(
        filled,
        flags=lambda key: _flags(group, list(places[key].records.values()) if key in places else []),
        # The row without attack, above those under one, is the baseline's.
        defense=lambda key: group.defenses.get(key[-1] if observed else key, group.baseline),
        name=slug(f"{group.head}-{attack or 'all'}"),
        title=f"{group.head}, no attack" if attack and attack == group.clean else f"{group.head}{under}",
        section=group.measure.section,
        keys=("observation", "defense") if observed else ("defense",),
        notes=(*_setting_notes(group), *_machines(group)),
    )


def _by_chance(metric: Metric, column: Column, runs: Runs) -> str:
    values = runs.values(metric.floor)
    return f"{column.number(fmean(values.values()))} by chance" if values else ""


def _has(metric: Metric, records: Sequence[Record]) -> bool:
    """Return whether a column would show anything: a value, or that all failed."""
    done = [record for record in records if record.status == "done"]
    return not done or any(record.metrics.get(metric.name) is not None for record in done)


def _with_reference(
    group: Group, attack: str, metrics: Sequence[Metric], filled: Sequence[FilledColumn]
) -> list[FilledColumn]:
    """Add a row of the baseline without attack, above those under one."""
    runs = group.runs(group.baseline, group.clean)
    if attack == group.clean or not runs.records:
        return list(filled)
    key = f"{group.baseline}{NO_ATTACK_ROW}"
    first = [runs.cell(metric, each.column, group.seeds) for metric, each in zip(metrics, filled, strict=False)]
    first += [Cell()] * (len(filled) - len(first))
    return [FilledColumn(each.column, {key: cell, **each.cells}) for each, cell in zip(filled, first, strict=True)]


def _differences(group: Group, attack: str, metric: Metric, places: Mapping[Key, Runs]) -> Iterable[FilledColumn]:
    """Return paired differences from the baseline under the same attack, Holm-corrected."""
    baseline = group.runs(group.baseline, attack)
    # The seeds that are left when others failed would be biased.
    if len(group.seeds) < 2 or len(places) < 2 or baseline.trouble(group.seeds):
        return
    column = Column.of(
        metric,
        name=f"{metric.name}_against_{group.baseline}",
        title=f"{metric.title} against {group.baseline}",
        meaning=f"Less that of {group.baseline} with the same seeds; p by paired t tests, Holm-corrected.",
        low=-1.0 if metric.is_share else None,
    )
    differences = {
        key: difference
        for key, runs in places.items()
        if key != group.baseline
        and not runs.trouble(group.seeds)
        and (difference := paired(runs.values(metric.name), baseline.values(metric.name)))
    }
    tested = [key for key, difference in differences.items() if difference.p is not None]
    ps = dict(zip(tested, holm([differences[key].p or 0.0 for key in tested]), strict=True))
    yield FilledColumn(
        column,
        {
            key: Cell.of(difference.estimate, column, f"p {_p(ps[key])}" if key in ps else "").behind(
                [*places[key].records.values(), *baseline.records.values()]
            )
            for key, difference in differences.items()
        },
    )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"


def _machines(group: Group) -> list[str]:
    """Return the machines that times were measured on, for metrics that differ between machines."""
    if not group.measure.alone:
        return []
    names = " and ".join(dict.fromkeys(str(record.manifest.get("processor")) for record in group.records))
    return [f"Measured on {names}; figures of other machines cannot be compared with these."]


# Sweeps


def _sweep_tables(sweep: Sweep) -> Iterable[Table]:
    for metric in (metric for metric in sweep.metrics if metric.headline):
        columns = [
            Column.of(metric, name=f"{sweep.parameter}-{value:g}", title=f"{sweep.parameter} = {value:g}", ranked=False)
            for value in sweep.values
        ]
        filled = [
            FilledColumn(
                column,
                {
                    label: sweep.runs[label, value].cell(metric, column, sweep.seeds)
                    for label in sweep.shown[metric.name]
                    if (label, value) in sweep.runs
                },
            )
            for column, value in zip(columns, sweep.values, strict=True)
        ]
        yield Table.of(
            filled,
            rows=sweep.shown[metric.name],
            flags=lambda label: sweep.measure.row_flags(sweep.records(label)),
            defense=sweep.shown[metric.name].__getitem__,
            name=slug(f"sweep-{sweep.title}-{metric.name}"),
            title=f"{sweep.title}: {metric.title} by {sweep.parameter}",
            section=sweep.measure.section,
            keys=(sweep.key,),
            notes=(metric.meaning,),
        )

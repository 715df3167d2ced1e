"""Worst cases of defenses: the worst mean over seeds of all attacks and deviations."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from fflbench.metrics import Metric
from fflbench.report.record_groups import RecordGroup, SeedRuns, attack_runs_by_name
from fflbench.report.statistics import BySeed, worst_mean
from fflbench.report.table_model import Column, FilledColumn, TableCell

NOTHING = "there is no value"


def worst_case_column(
    group: RecordGroup,
    metric: Metric,
    column: Column,
    attacks: Sequence[str],
    baselines: Mapping[str, SeedRuns] | None = None,
) -> FilledColumn:
    """Return the worst mean over seeds of each defense, over attacks and deviations, with the attack's name.

    With `baselines`, values are differences from these runs, which may differ from attack to attack. Diverged runs
    count with the value that the metric declares for them.
    """
    cells, values = {}, {}
    for defense in group.rows:
        tried = {attack: attack_runs_by_name(group, defense, [attack], [""]) for attack in attacks}
        runs = [each for by_name in tried.values() for each in by_name.values()]
        compared = [] if baselines is None else [baselines[attack] for attack in attacks]
        cell, values[defense] = _worst_case(group, metric, column, tried, baselines)
        cells[defense] = cell.with_records(record for each in [*runs, *compared] for record in each.records.values())
    return FilledColumn(column, cells).with_marks(values, group.seeds)


def _worst_case(
    group: RecordGroup,
    metric: Metric,
    column: Column,
    tried: Mapping[str, Mapping[str, SeedRuns]],
    baselines: Mapping[str, SeedRuns] | None,
) -> tuple[TableCell, BySeed]:
    """Return the cell of a defense's worst mean over attacks, and its values by seed."""
    problems = ["missing" for by_name in tried.values() if not by_name]
    figures: dict[str, BySeed] = {}
    diverged = {}
    for attack, by_name in tried.items():
        for deviation, runs in by_name.items():
            name = ", ".join(filter(None, (attack if len(tried) > 1 else "", deviation)))
            if problem := runs.problem(group.seeds, divergence=metric.diverged is None):
                problems.append(problem)
            ours = runs.values(metric.name, metric.diverged)
            theirs = baselines[attack].values(metric.name) if baselines else None
            if theirs is not None and set(theirs) != group.seeds:
                return TableCell(text="no attack-free baseline"), {}
            figures[name], diverged[name] = _subtract_baseline(ours, theirs), runs.diverged
    if problems:
        kinds = ("undefined", "diverged")
        several = next((kind for kind in kinds if any(kind in problem for problem in problems)), "incomplete")
        return TableCell(text=problems[0] if len(tried) == 1 else several), {}
    complete = {name: by_seed for name, by_seed in figures.items() if set(by_seed) == group.seeds}
    if not complete:
        return TableCell(), {}
    worst = worst_mean(complete, highest=not metric.higher_is_better)
    failed = f"{count} of {len(group.seeds)} diverged" if (count := diverged[worst.name]) else ""
    note = ", ".join(filter(None, (worst.name, failed)))
    return TableCell.from_estimate(worst.estimate, column, note), complete[worst.name]


def _subtract_baseline(values: BySeed, baseline: BySeed | None) -> BySeed:
    if baseline is None:
        return values
    return {seed: value - baseline[seed] for seed, value in values.items() if seed in baseline}


# The strongest attack by the mean


def strongest_attack(metric: Metric, runs_by_attack: Mapping[str, SeedRuns], seeds: set[int]) -> tuple[str, str]:
    """Return the name of the attack that is worst for the defense by the mean over seeds, or why none is known.

    By the mean and not seed by seed: of several attacks at chance level, the luckiest of each seed would look as if it
    succeeded.
    """
    problems = {name: problem for name, runs in runs_by_attack.items() if (problem := runs.problem(seeds))}
    if problems:
        most = max(problems, key=lambda name: runs_by_attack[name].diverged)
        if len(runs_by_attack) == 1 or not any(
            runs.problem(seeds, divergence=False) for runs in runs_by_attack.values()
        ):
            # A run that diverged is worse than any that did not.
            return "", ", ".join(filter(None, (problems[most], most)))
        return "", f"{len(problems)} of {len(runs_by_attack)} incomplete"
    means = {
        name: fmean(values.values()) for name, runs in runs_by_attack.items() if (values := runs.values(metric.name))
    }
    if not means:
        return "", NOTHING
    sign = 1 if metric.higher_is_better else -1
    # Ties by name, whatever the order of the records.
    return min(means, key=lambda name: (sign * means[name], name)), ""


def strongest_attack_cell(
    metric: Metric, column: Column, runs_by_attack: Mapping[str, SeedRuns], seeds: set[int]
) -> TableCell:
    """Return the cell of the attack that is worst for the defense, with its name where there are several."""
    best, problem = strongest_attack(metric, runs_by_attack, seeds)
    if problem:
        text = "" if problem == NOTHING else problem
        return TableCell(text=text).with_records(
            record for runs in runs_by_attack.values() for record in runs.records.values()
        )
    return runs_by_attack[best].cell(metric, column, seeds, best)

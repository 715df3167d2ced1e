"""Checks of measures, each in its smallest cell."""

import json
from typing import Any

from pydantic import ValidationError

from fflbench.conformance.check_registry import (
    NotCheckedError,
    comparable_bits,
    register_check,
    require,
    require_same_bits,
)
from fflbench.conformance.small_cells import SmallCell, attacks_taken_by, small_cell
from fflbench.conformance.small_federation import small_task
from fflbench.measures.measure import Outcome
from fflbench.records.validation import first_problem
from fflbench.registry import Entry, Kind
from fflbench.types import State


def small_cell_of_measure(entry: Entry) -> SmallCell:
    """Return the smallest cell of a measure, with the first attack that it takes, if it takes any."""
    attacks = attacks_taken_by(entry)
    if entry.target.attacked is not None and not attacks:
        raise NotCheckedError(f"{entry} cannot be checked, since no registered {entry.target.attacked} goes with it")
    return small_cell(entry, attacks[0] if attacks else None)


def require_declared_metrics(entry: Entry, measure: Entry, outcome: Outcome) -> None:
    """Require exactly the metrics that a measure declares, with values within their bounds."""
    declared, given = {metric.name for metric in measure.target.metrics}, set(outcome.metrics)
    absent, others = sorted(declared - given), sorted(given - declared)
    require(not absent, entry, f'gave no metric "{min(absent, default="")}", which {measure} declares')
    require(not others, entry, f'gave a metric "{min(others, default="")}", which {measure} does not declare')
    for metric in measure.target.metrics:
        problem = metric.problem(outcome.metrics[metric.name])
        require(not problem, entry, f'gave a metric "{metric.name}" that {problem}')


@register_check(Kind.MEASURE)
def check_declared_metrics(entry: Entry) -> None:
    """Check that a cell has the metrics that are declared, and no others, with values within their bounds."""
    require_declared_metrics(entry, entry, small_cell_of_measure(entry).run())


@register_check(Kind.MEASURE)
def check_facts_history_and_arrays(entry: Entry) -> None:
    """Check that facts, history and arrays are as the measure declares them, and a record can hold them."""
    cell = small_cell_of_measure(entry)
    outcome, declared = cell.run(), entry.target
    try:
        declared.facts.model_validate(outcome.facts)
        for item in outcome.history:
            declared.item.model_validate(item)
        json.dumps([outcome.facts, outcome.history], allow_nan=False)
        if outcome.arrays:
            cell.create_measure().check_arrays(outcome.arrays)
    except ValidationError as error:
        require(False, entry, f"gave facts or a history other than it declares ({first_problem(error)})")
    except (TypeError, ValueError) as error:
        require(False, entry, f"gave results that no record can hold ({error})")
    for metric in declared.metrics:
        trials = outcome.facts.get(metric.trials)
        whole = not metric.trials or (type(trials) is int and trials > 0)
        require(whole, entry, f'counts no trials in the fact "{metric.trials}", which metric "{metric.name}" names')


@register_check(Kind.MEASURE)
def check_reported_steps(entry: Entry) -> None:
    """Check that steps are reported in ascending order, and no more than were announced."""
    cell, reported = small_cell_of_measure(entry), list[int]()
    cell.run(report=lambda step, accuracy: reported.append(step))
    announced = cell.create_measure().step_count(small_task())
    in_order = reported == sorted(set(reported)) and all(0 < step <= announced for step in reported)
    require(in_order, entry, f"reported steps {reported}, and must report some of 1 to {announced}, in ascending order")


@register_check(Kind.MEASURE, applies=lambda entry: not entry.target.alone)
def check_determinism(entry: Entry) -> None:
    """Check that the seed decides metrics, history and arrays to the bit."""
    cell = small_cell_of_measure(entry)

    def run() -> Any:
        outcome = cell.run()
        return outcome.metrics, outcome.history, outcome.arrays

    require_same_bits(entry, run)


@register_check(Kind.MEASURE, applies=lambda entry: not entry.target.alone)
def check_resuming(entry: Entry) -> None:
    """Check that a cell that is stopped and resumed has the metrics of one that is not."""
    cell, states = small_cell_of_measure(entry), list[State]()
    whole = cell.run(keep=lambda state: states.append(state()))
    if states:
        resumed = cell.run(resume=lambda restore: restore(states[len(states) // 2]))
        same = comparable_bits(whole.metrics) == comparable_bits(resumed.metrics)
        require(same, entry, "gave other metrics after a cell was stopped and resumed")

"""How long cells will take and how much memory they need, as their measures estimate it on this machine."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from fflbench.data.prepared import is_here
from fflbench.federation.timing import Timing
from fflbench.measures.measure import PROCESS_BYTES
from fflbench.progress import track
from fflbench.registry import Kind
from fflbench.suites.cell import Cell
from fflbench.tasks import Task

GUESS = 0.01
"""Seconds a participant trains where that cannot be measured."""
# Poisoning takes next to nothing beside training: such attacks alone are no reason to time anything.
TIMED = set(Kind) - {Kind.ATTACK}

N = TypeVar("N", int, float)


def seconds_of(cells: Sequence[Cell]) -> list[float]:
    """About how many seconds each cell takes on one core."""
    timing = Timing()
    return _each(cells, TIMED, lambda cell: _seconds(cell, timing), "Estimating how long cells take")


def memory_of(cells: Sequence[Cell]) -> list[int]:
    """About how many bytes each cell needs."""
    return _each(cells, (Kind.TASK, Kind.MEASURE), _memory)


def one_kind(cells: Sequence[Cell]) -> bool:
    """Whether all cells would be timed alike."""
    return len({_decides(cell, TIMED) for cell in cells}) < 2


def _decides(cell: Cell, kinds: Collection[Kind]) -> str:
    return str([cell.configuration[kind] for kind in Kind if kind in kinds and kind in cell.configuration])


def _each(cells: Sequence[Cell], kinds: Collection[Kind], estimate: Callable[[Cell], N], bar: str = "") -> list[N]:
    """Estimate cells that differ in parts of these kinds once each."""
    alike = {_decides(cell, kinds): cell for cell in cells}
    known = {key: estimate(cell) for key, cell in (track(list(alike.items()), bar) if bar else alike.items())}
    return [known[_decides(cell, kinds)] for cell in cells]


def _seconds(cell: Cell, timing: Timing) -> float:
    task: Task = cell.create(Kind.TASK)
    guess = task.rounds * task.per_round * GUESS
    if cell.data_set and not is_here(cell.data_set):
        # It is on other machines only, and nobody downloads a data set for an estimate.
        return guess
    try:
        return cell.measure.estimate(task, cell.defense, cell.attack, timing)
    except (Exception, SystemExit):
        # Whatever is wrong with it will be told in its cell.
        return guess


def _memory(cell: Cell) -> int:
    task: Task = cell.create(Kind.TASK)
    try:
        return cell.measure.memory(task) if task.countable else PROCESS_BYTES
    except (Exception, SystemExit):
        # A model that cannot be counted without being built will tell in its own cell what is wrong, if anything.
        return PROCESS_BYTES

"""Estimates of the time and memory of cells, as their measures make them on this machine."""

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
"""Assumed seconds of one participant's training where it cannot be measured."""
# Poisoning takes a negligible time beside training, so cells that differ only in it are not timed.
TIMED = set(Kind) - {Kind.ATTACK}

N = TypeVar("N", int, float)


def seconds_of(cells: Sequence[Cell]) -> list[float]:
    """Return the estimated seconds of each cell on one core."""
    timing = Timing()
    return _each(cells, TIMED, lambda cell: _seconds(cell, timing), "Estimating how long cells take")


def memory_of(cells: Sequence[Cell]) -> list[int]:
    """Return the estimated bytes of memory of each cell."""
    return _each(cells, (Kind.TASK, Kind.MEASURE), _memory)


def one_kind(cells: Sequence[Cell]) -> bool:
    """Return whether all cells have the same estimated time."""
    return len({_decides(cell, TIMED) for cell in cells}) < 2


def _decides(cell: Cell, kinds: Collection[Kind]) -> str:
    return str([cell.configuration[kind] for kind in Kind if kind in kinds and kind in cell.configuration])


def _each(cells: Sequence[Cell], kinds: Collection[Kind], estimate: Callable[[Cell], N], bar: str = "") -> list[N]:
    """Return an estimate for each cell, made once for all cells that agree in their parts of these kinds."""
    alike = {_decides(cell, kinds): cell for cell in cells}
    known = {key: estimate(cell) for key, cell in (track(list(alike.items()), bar) if bar else alike.items())}
    return [known[_decides(cell, kinds)] for cell in cells]


def _seconds(cell: Cell, timing: Timing) -> float:
    task: Task = cell.create(Kind.TASK)
    guess = task.rounds * task.per_round * GUESS
    if cell.data_set and not is_here(cell.data_set):
        # An estimate is not worth the download of a data set.
        return guess
    try:
        return cell.measure.estimate(task, cell.defense, cell.attack, timing)
    except (Exception, SystemExit):
        # The error is reported when its cell runs.
        return guess


def _memory(cell: Cell) -> int:
    task: Task = cell.create(Kind.TASK)
    try:
        return cell.measure.memory(task) if task.countable else PROCESS_BYTES
    except (Exception, SystemExit):
        # Some models cannot be built without storage; a true error is reported when its cell runs.
        return PROCESS_BYTES

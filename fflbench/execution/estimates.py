"""Estimates of the time and memory of cells, as their measures make them on this machine."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from fflbench.data.cache import is_available
from fflbench.federation.time_estimates import Timing
from fflbench.measures.measure import PROCESS_BYTES
from fflbench.progress import track_progress
from fflbench.registry import Kind
from fflbench.suites.cell import Cell
from fflbench.tasks import Task

GUESS = 0.01
"""Assumed seconds of one participant's training where it cannot be measured."""
# Poisoning takes a negligible time beside training, unless attackers simulate rounds.
TIMED = set(Kind) - {Kind.ATTACK}

N = TypeVar("N", int, float)


def estimate_seconds(cells: Sequence[Cell], device: str = "cpu") -> list[float]:
    """Return the estimated seconds of each cell on one core, or on one core and a GPU."""
    timing = Timing(device)
    return _estimate_once_per_kind(
        cells, TIMED, lambda cell: _estimate_cell_seconds(cell, timing), "Estimating how long cells take"
    )


def estimate_memory(cells: Sequence[Cell]) -> list[int]:
    """Return the estimated bytes of memory of each cell."""
    return _estimate_once_per_kind(cells, (Kind.TASK, Kind.MEASURE), _estimate_cell_memory)


def all_take_equally_long(cells: Sequence[Cell]) -> bool:
    """Return whether all cells have the same estimated time."""
    return len({_cost_key(cell, TIMED) for cell in cells}) < 2


def _cost_key(cell: Cell, kinds: Collection[Kind]) -> str:
    parts = [cell.configuration[kind] for kind in Kind if kind in kinds and kind in cell.configuration]
    return f"{parts} {getattr(cell.attack, 'simulations_per_round', 0)}"


def _estimate_once_per_kind(
    cells: Sequence[Cell], kinds: Collection[Kind], estimate: Callable[[Cell], N], bar: str = ""
) -> list[N]:
    """Return an estimate for each cell, made once for all cells that agree in their parts of these kinds."""
    alike = {_cost_key(cell, kinds): cell for cell in cells}
    known = {key: estimate(cell) for key, cell in (track_progress(list(alike.items()), bar) if bar else alike.items())}
    return [known[_cost_key(cell, kinds)] for cell in cells]


def _estimate_cell_seconds(cell: Cell, timing: Timing) -> float:
    task: Task = cell.create(Kind.TASK)
    guess = task.rounds * task.per_round * GUESS
    if cell.data_set and not is_available(cell.data_set):
        # An estimate is not worth the download of a data set.
        return guess
    try:
        return cell.measure.estimate_seconds(task, cell.defense, cell.attack, timing)
    except (Exception, SystemExit):
        # The error is reported when its cell runs.
        return guess


def _estimate_cell_memory(cell: Cell) -> int:
    task: Task = cell.create(Kind.TASK)
    try:
        return cell.measure.memory_bytes(task) if task.can_build_model else PROCESS_BYTES
    except (Exception, SystemExit):
        # Some models cannot be built without storage; a true error is reported when its cell runs.
        return PROCESS_BYTES

"""How much memory cells need."""

import math
import re
from collections.abc import Sequence

from fflbench.errors import ParameterError
from fflbench.measures import GIGABYTE, PROCESS_BYTES, columns_of
from fflbench.registry import Kind
from fflbench.suites.plan import Cell
from fflbench.tasks import Task

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": GIGABYTE, "T": 10**12}

COPIES = 3
"""Matrices of updates that a round may hold: as trained, as sent, and what a defense makes of them."""

MODELS = 12
"""Vectors of a model's length besides: the model, its gradient and moments, the last ones that are averaged."""


def memory_of(cells: Sequence[Cell]) -> list[int]:
    """About how many bytes each cell needs."""
    known: dict[str, int] = {}
    for cell in cells:
        key = _decides(cell)
        if key not in known:
            known[key] = _memory(cell)
    return [known[_decides(cell)] for cell in cells]


def _decides(cell: Cell) -> str:
    return str([cell.configuration.get(kind) for kind in (Kind.TASK, Kind.MEASURE)])


def _memory(cell: Cell) -> int:
    task: Task = cell.create(Kind.TASK)
    if not task.countable:
        return PROCESS_BYTES
    try:
        if cell.measure:
            return cell.measure.memory(task)
        columns = columns_of(task).count
    except (Exception, SystemExit):
        # A model that cannot be counted without being built will tell in its own cell what is wrong, if anything.
        return PROCESS_BYTES
    return PROCESS_BYTES + 4 * columns * (COPIES * task.per_round + MODELS + task.average_last)


def parse(text: str) -> int:
    """A size as people write it: 16GB, 500M."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", text.strip(), re.IGNORECASE)
    size = float(found[1]) * UNITS[found[2].upper()] if found else 0.0
    if not 1 <= size < math.inf:
        raise ParameterError(f'"{text}" is no size of memory such as 16GB or 500MB')
    return int(size)

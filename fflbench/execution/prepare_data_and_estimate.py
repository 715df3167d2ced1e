"""Preparation of a run: the data that its cells need, and estimates of their time and memory.

This runs in other processes, since it imports torch, which the driver needs for nothing else, and runs code of plugins.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from fflbench.errors import FflbenchError
from fflbench.execution.child_processes import ProcessDiedError, call_in_child_process
from fflbench.execution.estimates import all_take_equally_long, estimate_memory, estimate_seconds
from fflbench.execution.run_options import Options
from fflbench.measures.measure import PROCESS_BYTES
from fflbench.progress import no_progress
from fflbench.registry import Kind
from fflbench.suites.cell import Cell
from fflbench.tasks import Task

R = TypeVar("R")


def prepare_data_and_estimate(cells: list[Cell], options: Options) -> tuple[dict[str, float], list[int]]:
    """Prepare the data of cells that run on this machine; return the estimated seconds (by cell) and bytes of each.

    Errors are reported later by the cells themselves.
    """

    def call(function: Callable[..., R], *arguments: Any, otherwise: R, timeout: float = options.cell_timeout) -> R:
        try:
            return call_in_child_process(function, cells, *arguments, plugins=options.plugins, timeout=timeout)
        except ProcessDiedError:
            return otherwise

    here, hidden = options.runs_here, options.log_json
    if here and any(cell.data_set for cell in cells):
        # Without a time limit, since the data may have to be downloaded.
        call(_prepare_datasets, hidden, otherwise=None, timeout=math.inf)
    estimated = call(_estimate_memory_and_seconds, here, hidden, otherwise=None)
    # If timing a defense ended the process, its memory can still be estimated.
    needs, seconds = estimated or (call(estimate_memory, otherwise=[PROCESS_BYTES] * len(cells)), [1.0] * len(cells))
    return dict(zip((cell.id for cell in cells), seconds, strict=True)), needs


def _prepare_datasets(cells: list[Cell], hidden: bool) -> None:
    """Prepare the data sets of tasks once, with progress bars unless hidden, before workers need them."""
    with no_progress() if hidden else nullcontext():
        for task in _tasks_that_need_data(cells):
            if task.data_set and type(task).data is Task.data:
                with _ignore_errors_that_cells_report():
                    task.data()


def _estimate_memory_and_seconds(cells: list[Cell], here: bool, hidden: bool) -> tuple[list[int], list[float]]:
    """Return the estimated bytes and seconds of each cell; refuse more participants than the data allows."""
    with no_progress() if hidden else nullcontext():
        for task in _tasks_that_need_data(cells) if here else ():
            with _ignore_errors_that_cells_report():
                task.divide(task.data().train.y, seed=0)
        # Equal times put no cell before another.
        return estimate_memory(cells), [1.0] * len(cells) if all_take_equally_long(cells) else estimate_seconds(cells)


@contextmanager
def _ignore_errors_that_cells_report() -> Iterator[None]:
    """Let errors that the user can fix pass, and ignore others, which the cells of the task will report."""
    try:
        yield
    except FflbenchError:
        raise
    except (Exception, SystemExit):  # noqa: S110
        pass


def _tasks_that_need_data(cells: Sequence[Cell]) -> list[Task]:
    """Return the tasks of cells whose measures need data."""
    needing = [cell for cell in cells if cell.measure.needs_data]
    return list({str(cell.configuration["task"]): cell.create(Kind.TASK) for cell in needing}.values())

"""What a cell finds out. Without a measure it plays a federation and asks what the model is worth (robustness).

A measure is a registered class whose fields are its parameters; a suite names it in its [measure] table. It is handed
the cell's task and defense and returns an `Outcome`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fflbench.errors import FflbenchError, ParameterError
from fflbench.registry import Kind

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import nn

    from fflbench.federation import Columns, Defense
    from fflbench.tasks import Task

GIGABYTE = 10**9
PROCESS_BYTES = GIGABYTE // 2
"""What a worker takes before it does anything, torch included."""


@dataclass(frozen=True)
class Outcome:
    """What a cell found."""

    metrics: dict[str, Any]
    """The figures that tables show."""
    history: list[dict[str, Any]]
    facts: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    arrays: "dict[str, npt.NDArray[Any]]" = field(default_factory=dict)
    """What is too big for a record, to be kept beside it."""


class Measure:
    """Something to find out about a defense on a task."""

    alone: ClassVar[bool] = False
    """Whether its cells must have the machine to themselves; their figures are then not promised to the bit."""
    needs_data: ClassVar[bool] = True
    """Whether it looks at the task's data."""
    attacked: ClassVar[Kind | None] = None
    """The kind of attacks it lets loose, if any."""
    metrics: ClassVar[tuple[str, ...]] = ()
    """What a finished cell's metrics hold at least."""
    threads: int = 1
    """How many threads it uses."""

    def applies(self, defense: "Defense") -> bool:
        """Whether it makes sense for a defense; cells where it does not are left out."""
        return True

    def takes(self, attack: Any) -> bool:
        """Whether it can let this attack loose."""
        return True

    def check(self, task: "Task", defense: "Defense") -> None:
        """Refuse what could only fail later, with a `ParameterError`."""

    def steps(self) -> int:
        """How many times `play` tells of its progress."""
        raise NotImplementedError

    def memory(self, task: "Task") -> int:
        """About how many bytes a cell needs."""
        return PROCESS_BYTES

    def estimate(self, task: "Task", defense: "Defense", attack: Any = None) -> float:
        """About how many seconds a cell takes."""
        raise NotImplementedError

    def play(
        self,
        task: "Task",
        defense: "Defense",
        seed: int,
        tell: Callable[[int], None],
        attack: Any = None,
        device: str = "cpu",
    ) -> Outcome:
        """Find it out; `tell` hears of every step. `attack` is there where the measure names a kind of them."""
        raise NotImplementedError


def columns_of(task: "Task") -> "Columns":
    """The columns of an update, without storing a model."""
    from fflbench.federation.columns import Columns

    return Columns.of(built(task))


def built(task: "Task") -> "nn.Module":
    """A task's model, without its weights."""
    import torch

    try:
        with torch.device("meta"):
            return task.model()
    except FflbenchError:
        raise
    except Exception as error:
        # Strangers' code may fail in any way.
        told = f"{type(error).__name__}: {error}"
        raise ParameterError(f"the model of {type(task).__name__} cannot be counted: {told}") from error


def readable_bytes(count: float) -> str:
    """A number of bytes for people."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the standard deviation of single values."""
    from statistics import fmean, stdev

    return fmean(values), stdev(values) if len(values) > 1 else 0.0

"""Base class of measures: their metrics, requirements and run, and their tables and figures.

A measure is a registered class whose fields are its parameters; a suite names it in its [measure] table (without one,
it is robustness). It receives the task, defense and attack of a cell in a `Context` and returns an `Outcome`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fflbench.metrics import Metric
from fflbench.records.cell_configuration import CHAIN
from fflbench.records.npz_file import Arrays
from fflbench.records.record import Record
from fflbench.records.validation import RecordFields
from fflbench.registry import Kind
from fflbench.report.figure_files import ReportFigure
from fflbench.report.table_model import FilledColumn, Table
from fflbench.types import State

if TYPE_CHECKING:
    import numpy.typing as npt

    from fflbench.federation import Attack, Deviation
    from fflbench.federation.chain import Chain
    from fflbench.federation.time_estimates import Timing
    from fflbench.tasks import Task

PROCESS_BYTES = 10**9 // 2
"""Memory of a worker process with torch loaded."""


@dataclass(frozen=True)
class Outcome:
    """Results of a cell."""

    metrics: dict[str, Any]
    """Values of the metrics that the measure declares."""
    history: list[dict[str, Any]]
    """One item per round or step, for curves."""
    facts: dict[str, Any]
    """Facts that tables use and notes for readers, as JSON values."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds by phase of the cell."""
    arrays: "dict[str, npt.NDArray[Any]]" = field(default_factory=dict)
    """Arrays too big for a record, kept beside it."""


@dataclass(frozen=True)
class Context:
    """Input of a measure: the parts of its cell, and ways to report progress and to resume."""

    task: "Task"
    """The cell's task."""
    defense: "Chain"
    """The cell's defense, a new object."""
    seed: int
    """The cell's seed."""
    attack: Any = None
    """Attack of the kind that the measure names, if any."""
    deviation: "Deviation | None" = None
    """Deviation of participants from the transport's protocol; None where all follow it."""
    goals: "Sequence[Attack]" = ()
    """Attacks for whose goals the model is scored where there are no attackers."""
    device: str = "cpu"
    """Device to compute on: "cpu", or "cuda" with or without a number."""
    report: Callable[[int, float | None], None] = lambda step, accuracy: None
    """Called after every step, with the accuracy so far where there is one."""
    keep: Callable[[Callable[[], State]], None] = lambda state: None
    """Function that saves the state if a checkpoint is due, and ends the cell if it is to stop."""
    resume: Callable[[Callable[[State], None]], None] = lambda restore: None
    """Function that returns the state of an earlier run, if any."""

    def report_step(
        self, number: int, *, accuracy: float | None = None, state: Callable[[], State] | None = None
    ) -> None:
        """Report that so many steps are done; with `state`, the cell can resume from here."""
        self.report(number, accuracy)
        if state:
            self.keep(state)


@dataclass(frozen=True)
class Curve:
    """Keys of a history's items that make curves, as in accuracy by round."""

    name: str
    """Name of its files, and of the y-axis."""
    x: str
    """Key of the values on the x-axis."""
    lines: Mapping[str, str]
    """Keys of the lines, with the name of each where there are several."""
    title: str
    """Title of the figure."""
    percent: bool = False
    """Whether values are shares, shown as percentages."""
    is_share: bool = False
    """Whether values are from 0 to 1, to which their intervals are limited, as those of percentages are."""
    logarithmic_x: bool = False
    """Whether the x-axis is logarithmic, so that the first values are far apart."""
    logarithmic: bool = False
    """Whether both axes are logarithmic, with the diagonal as the result of guessing."""
    every_deviation: bool = False
    """Whether all deviations from a protocol are drawn, instead of the worst by the measure's first metric."""


class Measure:
    """Measure of a defense on a task."""

    metrics: ClassVar[tuple[Metric, ...]] = ()
    """All metrics of a finished cell that tables, plots and `verify` use."""
    alone: ClassVar[bool] = False
    """Whether its cells must run one at a time on a machine; their metrics are then not reproducible bit by bit."""
    needs_data: ClassVar[bool] = True
    """Whether it uses the task's data."""
    attacked: ClassVar[Kind | None] = None
    """The kind of attacks it runs, if any."""
    depends_on: ClassVar[tuple[str, ...]] = tuple(CHAIN)
    """Parts of a defense that decide its results; defenses that agree in them share one result."""
    mode: ClassVar[Literal["fast", "full"]] = "fast"
    """Default mode of a transport with cryptography: its arithmetic alone, or every key and message."""
    threads: int = 1
    """Number of threads that it uses."""

    # Content of its records

    facts: ClassVar[type[RecordFields]] = RecordFields
    """Model of the facts that its tables use."""
    item: ClassVar[type[RecordFields]] = RecordFields
    """Model of the items of its history."""
    exact_facts: ClassVar[tuple[str, ...]] = ()
    """Facts that are the same on every machine."""

    # Tables and figures

    section: ClassVar[str] = "Other measures"
    """Heading of its tables."""
    observed: ClassVar[str] = ""
    """Parameter that names an observation, if it has one: tables have one column per value."""
    curves: ClassVar[tuple[Curve, ...]] = ()
    """Curves to draw of histories."""
    joined: ClassVar[tuple[str, ...] | None] = None
    """Metrics shown in the table that joins all measures; None for the first headline metric."""
    any_task: ClassVar[bool] = False
    """Whether the joined tables of tasks on which it was not run show its metrics, too."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = [metric.name for metric in cls.metrics if isinstance(metric, Metric)]
        if len(set(names)) < len(cls.metrics):
            raise TypeError(f"{cls.__name__}.metrics must be Metrics, each with a name of its own")
        for metric in (metric for metric in cls.metrics if metric.floor not in ("", *names)):
            raise TypeError(f"{cls.__name__}.metrics: {metric.name} has the floor {metric.floor}, which is no metric")
        if cls.joined is not None and not set(cls.joined) <= set(names):
            raise TypeError(f"{cls.__name__}.joined must be names of its metrics")
        if cls.attacked not in (None, Kind.ATTACK, Kind.PRIVACY_ATTACK):
            raise TypeError(f"{cls.__name__}.attacked must be Kind.ATTACK, Kind.PRIVACY_ATTACK or None")
        if not cls.depends_on or not set(cls.depends_on) <= set(CHAIN):
            raise TypeError(f"{cls.__name__}.depends_on must be some of {', '.join(CHAIN)}")
        if not (issubclass(cls.facts, RecordFields) and issubclass(cls.item, RecordFields)):
            raise TypeError(f"{cls.__name__}.facts and .item must be subclasses of RecordFields")

    def applies_to(self, defense: "Chain") -> bool:
        """Return whether it is defined for a defense; cells where it is not are left out."""
        return True

    def accepts_attack(self, attack: Any) -> bool:
        """Return whether it can run this attack."""
        return True

    def check(self, task: "Task", defense: "Chain", attack: Any = None) -> None:
        """Raise a `ParameterError` for a combination that could only fail later."""

    def check_arrays(self, arrays: Arrays) -> None:
        """Raise a `ValueError` for arrays beside a record that are not this measure's."""

    def step_count(self, task: "Task") -> int:
        """Return the number of steps that `run` reports."""
        return 1

    def memory_bytes(self, task: "Task") -> int:
        """Return the approximate number of bytes that a cell needs."""
        return PROCESS_BYTES

    def estimate_seconds(self, task: "Task", defense: "Chain", attack: Any, timing: "Timing") -> float:
        """Return the approximate seconds of a cell; `timing` measures training and defenses on this machine."""
        return 1.0

    def run(self, context: Context) -> Outcome:
        """Run the cell and return its results."""
        raise NotImplementedError

    @classmethod
    def shown_metrics(cls, records: Sequence[Record]) -> tuple[Metric, ...]:
        """Return the metrics that tables of these records have columns for; all records are of one attack."""
        return tuple(metric for metric in cls.metrics if metric.shown)

    @classmethod
    def score_clean_for_attack(cls, clean: Record, attacked: Record) -> Record:
        """Return a record without attack with metrics comparable to those of a record under attack."""
        return clean

    @classmethod
    def is_undefined(cls, record: Record) -> bool:
        """Return whether a finished record has no result, since its defense is not defined for its setting."""
        return False

    @classmethod
    def row_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return warnings for the row of a defense, from all its records in a table."""
        return ()

    @classmethod
    def table_notes(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return notes for readers of tables of one setting; the records are finished ones."""
        return ()

    @classmethod
    def is_demonstration(cls, parameters: Mapping[str, Any]) -> bool:
        """Return whether cells with these parameters are demonstrations, which the joined table leaves out."""
        return False

    @classmethod
    def joined_columns(cls, records: Sequence[Record]) -> Iterable[FilledColumn] | None:
        """Return columns of the joined table from records of one setting; None: the worst of the joined metrics."""
        return None

    @classmethod
    def summary_tables(cls, records: Sequence[Record]) -> Iterable[Table]:
        """Return tables that stand before those that every measure gets from its metrics."""
        return ()

    @classmethod
    def extra_tables(cls, records: Sequence[Record]) -> Iterable[Table]:
        """Return tables that stand after those that every measure gets from its metrics."""
        return ()

    @classmethod
    def extra_figures(cls, records: Sequence[Record], arrays: Callable[[Record], Arrays]) -> Iterable[ReportFigure]:
        """Return figures beyond those that every measure gets from its metrics and curves."""
        return ()

    @classmethod
    def leaderboard_flags(cls, records: Sequence[Record]) -> Iterable[str]:
        """Return warnings that concern more than one row."""
        return ()

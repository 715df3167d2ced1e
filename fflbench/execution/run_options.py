"""Options of `fflbench run` that say how cells are run, not which."""

import math
from dataclasses import dataclass
from pathlib import Path

from fflbench.errors import SuiteError

LOCAL = "local"
"""Executor whose cells all run on this machine; any other one may run them elsewhere."""


@dataclass(frozen=True)
class Options:
    """Options of a run that change no result."""

    workers: int | None = None
    """Cells that run at the same time; by default one per core, or as many as the cluster has room for."""
    device: str = "cpu"
    plugins: tuple[str, ...] = ()
    memory_limit: float | None = None
    """Most bytes that cells may take together on this machine."""
    cell_timeout: float = math.inf
    """Seconds after which a cell is cancelled."""
    executor: str = LOCAL
    address: str | None = None
    """Address of the cluster that the executor uses."""
    retries: int = 3
    """Retries of a cell that was lost with its node."""
    log_json: bool = False
    command: str = ""
    """Command line of the run, as `fflbench status` shows it."""
    data_dir: Path | None = None
    """Folder of data sets, if given; part of the command that runs a failed cell again."""

    @property
    def runs_here(self) -> bool:
        """Whether all cells run on this machine, whose device and data are then checked before any cell runs."""
        return self.executor == LOCAL

    def __post_init__(self) -> None:
        if self.address and self.runs_here:
            raise SuiteError("--address is for executors on a cluster: add --executor ray")

"""Executors that come with fflbench; each is imported when a run uses it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fflbench.plugin import executor

if TYPE_CHECKING:
    from fflbench.plugin import Events, Job, RunSettings


@executor("local", title="This machine")
def local(jobs: "Sequence[Job]", settings: "RunSettings") -> "Events":
    """Run cells in worker processes of this machine: one per core, unless --workers says how many."""
    from fflbench.execution.local_executor import execute

    return execute(jobs, settings)


@executor(
    "ray",
    title="Ray cluster",
    citation="Moritz et al., Ray: a distributed framework for emerging AI applications, OSDI 2018.",
)
def ray(jobs: "Sequence[Job]", settings: "RunSettings") -> "Events":
    """Run cells on the nodes of a Ray cluster: the one at --address, or a new one on this machine."""
    from fflbench.execution.ray_executor import execute

    return execute(jobs, settings)

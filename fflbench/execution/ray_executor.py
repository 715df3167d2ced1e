"""Executor for a Ray cluster (Moritz et al., Ray: a distributed framework for emerging AI applications, OSDI 2018).

Ray places each cell on a node with the processors, GPUs and memory that it needs. Records and checkpoints are sent to
the driver, which alone writes them, so no disk is shared. Plugins that are files are sent as text, modules as Ray's
py_modules, together with the path of the data. A node that lacks a part of a cell reports it and is excluded
from such cells.
"""

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fflbench import __version__
from fflbench.data.dataset_files import ENVIRONMENT
from fflbench.errors import SuiteError
from fflbench.execution.durations_and_sizes import format_bytes
from fflbench.execution.jobs_and_events import (
    KILLED_FOR_MEMORY,
    TICK,
    CannotRun,
    Event,
    Events,
    Finished,
    Interrupted,
    Job,
    Note,
    Progress,
    RunSettings,
    Started,
    Stopped,
    failed_cell_event,
    timeout_event,
)
from fflbench.execution.ray_connection import connect_to_ray, is_server_listening
from fflbench.execution.ray_node import (
    NodeSettings,
    ReportCollector,
    last_line_of_error,
    names_of_required_parts,
    run_cell_on_node,
)
from fflbench.records.manifest import results_versions, source_commit
from fflbench.records.record import Record
from fflbench.records.store import write_atomically

CHECK_SECONDS = 2.0
"""Seconds between two checks of the nodes."""
MOST_WAIT_SECONDS = 30.0
"""Seconds that a cell waits for a node with enough resources, and the driver for an answer of the head node."""
TRANSFER_SECONDS = 60.0
"""Most seconds for the transfer of a checkpoint to the driver."""
EXTRA_CELLS = 4
"""Cells that Ray is given beyond its capacity, so that no processor waits for the driver."""
HOW_TO_RESUME = "finished cells are kept; the same command runs the rest"


@dataclass
class _Attempt:
    """Attempt to run a cell on the cluster."""

    job: Job
    number: int
    node: str = ""
    since: float | None = None
    """Time at which it began, if it has."""
    failure: Finished | None = None
    """Failure to report, if it was cancelled for good."""
    requeued: bool = False
    """Whether it was cancelled because no present node has the resources."""
    checkpoint_lost: bool = False
    """Whether its last checkpoint was lost in transfer."""


def execute(jobs: Sequence[Job], settings: RunSettings) -> Events:
    """Run all jobs and yield events as they happen; closing this generator stops everything at once."""
    with connect_to_ray(settings.address, settings.plugins) as ray:
        try:
            yield from _Driver(ray, jobs, settings).run()
        except ray.exceptions.RayError as error:
            raise SuiteError(f"the Ray cluster is gone: {last_line_of_error(error)}; {HOW_TO_RESUME}") from error


class _Driver:
    """Driver of a run on a cluster."""

    def __init__(self, ray: Any, jobs: Sequence[Job], settings: RunSettings) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.ray, self.settings, self.waiting = ray, settings, list(jobs)
        self.attempts: dict[Any, _Attempt] = {}
        """Running attempts, by Ray's reference to their result."""
        self.by_cell: dict[str, _Attempt] = {}
        self.submitted = 0
        self.lost: Counter[str] = Counter()
        """Number of nodes lost while they ran a cell."""
        self.excluded: dict[str, dict[str, str]] = {}
        """Nodes that cannot run a cell, with the reason, by the part of the cell that they lack."""
        self.waiting_since: dict[Resources, float] = {}
        """Time since which no node has had the resources that a cell needs, by those resources."""
        self.head = ray.get_runtime_context().gcs_address
        self.stop_sent, self.last_check, self.head_answered = False, -CHECK_SECONDS, time.monotonic()
        self.node_settings = ray.put(_make_node_settings(settings))
        self.run_on_node = ray.remote(run_cell_on_node)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.collector = ray.remote(num_cpus=0)(ReportCollector).options(scheduling_strategy=here).remote()
        self.names: dict[str, str] = {}
        self.nodes = self._list_alive_nodes()

    def run(self) -> Events:
        """Run all jobs and yield events until none is left."""
        try:
            while self.waiting or self.attempts:
                yield from self._submit_and_collect()
        finally:
            with suppress(self.ray.exceptions.RayError):
                for ref in self.attempts:
                    self.ray.cancel(ref, force=True)

    def _submit_and_collect(self) -> Iterator[Event | None]:
        """Submit jobs, wait for at most one tick, and yield what happened."""
        if self.settings.stopping.is_set():
            self.waiting.clear()
            self._ask_cells_to_stop()
        free = max(0, self._most_submitted_cells() - len(self.attempts))
        for job in list(itertools.islice(filter(self._some_node_can_run, self.waiting), free)):
            self.waiting.remove(job)
            self._submit_job(job)
        ended = self._wait_for_ended(1, TICK) and self._wait_for_ended(len(self.attempts), 0)
        # Reports from before the end of an attempt are handled before the end.
        yield from self._read_reports()
        for ref in ended:
            attempt = self.attempts.pop(ref)
            del self.by_cell[attempt.job.cell.id]
            yield from self._handle_end(attempt, ref)
        yield from self._cancel_overdue_and_unplaceable()
        yield None

    def _most_submitted_cells(self) -> int:
        """Return the number of cells that Ray is given at a time."""
        processors = sum(node["Resources"].get("CPU", 0) for node in self.nodes.values())
        return self.settings.workers or EXTRA_CELLS + int(processors)

    def _wait_for_ended(self, count: int, seconds: float) -> list[Any]:
        if not self.attempts:
            time.sleep(seconds)
            return []
        ready: list[Any] = self.ray.wait(list(self.attempts), num_returns=count, timeout=seconds)[0]
        return ready

    def _submit_job(self, job: Job) -> None:
        avoid = self._nodes_excluded_for(job)
        options: dict[str, Any] = {"label_selector": {"ray.io/node-id": f"!in({','.join(avoid)})"}} if avoid else {}
        checkpoint = self.settings.store.checkpoint_file(job.cell.id)
        saved = checkpoint.read_bytes() if checkpoint.is_file() else None
        ref = self.run_on_node.options(
            name=str(job.cell),
            num_cpus=job.cpus,
            num_gpus=job.gpus,
            memory=job.memory,
            # The driver counts retries itself.
            max_retries=0,
            **options,
        ).remote(
            job.cell,
            results_versions(job.cell.configuration),
            self.submitted,
            self.node_settings,
            saved,
            self.collector,
        )
        self.attempts[ref] = self.by_cell[job.cell.id] = _Attempt(job, self.submitted)
        self.submitted += 1

    def _read_reports(self) -> Iterator[Event]:
        """Yield the events that cells have reported to the collector."""
        for cell, number, kind, content in self.ray.get(self.collector.take_reports.remote()):
            attempt = self.by_cell.get(cell)
            if attempt is None or attempt.number != number:
                # From an attempt that was cancelled or assumed lost.
                continue
            match kind:
                case "started":
                    attempt.node, attempt.since = content, time.monotonic()
                    yield Started(attempt.job.cell, self._node_name(content))
                case "round":
                    yield Progress(attempt.job.cell, *content)
                case "checkpoint":
                    yield from self._save_checkpoint(attempt, content)
                case "note":
                    yield Note(content)

    def _save_checkpoint(self, attempt: _Attempt, reference: Sequence[Any]) -> Iterator[Event]:
        """Transfer a checkpoint from its node to the driver's store."""
        cell = attempt.job.cell
        try:
            content = self.ray.get(reference[0], timeout=TRANSFER_SECONDS)
            write_atomically(self.settings.store.checkpoint_file(cell.id), content)
            attempt.checkpoint_lost = False
        except (self.ray.exceptions.RayError, OSError) as error:
            attempt.checkpoint_lost = True
            reason = getattr(error, "strerror", None) or last_line_of_error(error)
            yield Note(f"the checkpoint of {cell} could not be saved: {reason}")

    def _handle_end(self, attempt: _Attempt, ref: Any) -> Iterator[Event]:
        """Yield the events that follow from the end of an attempt."""
        try:
            result = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            yield from self._handle_error(attempt, error)
        else:
            yield from self._handle_result(attempt, result)

    def _handle_error(self, attempt: _Attempt, error: Any) -> Iterator[Event]:
        """Handle an attempt that ended without a result: cancelled by the driver, or failed."""
        job = attempt.job
        if attempt.failure:
            yield attempt.failure
        elif attempt.requeued:
            self.waiting.insert(0, job)
            if attempt.since is not None:
                yield Interrupted(job.cell, "runs on another node")
        elif isinstance(error, self.ray.exceptions.TaskCancelledError):
            # It was about to begin when the run was stopped.
            if attempt.since is not None:
                yield Interrupted(job.cell, "stopped before its first round")
        else:
            yield from self._handle_crash(attempt, error)

    def _handle_crash(self, attempt: _Attempt, error: Any) -> Iterator[Event]:
        """Handle an attempt that was lost with its worker or node, or that Ray could not run."""
        errors = self.ray.exceptions
        job, node = attempt.job, self._node_name(attempt.node)
        died = isinstance(error, errors.WorkerCrashedError)
        gone = isinstance(error, errors.NodeDiedError | errors.ObjectLostError)
        if (
            attempt.since is None
            and isinstance(error, errors.RayTaskError)
            and (there := self._nodes_where_raised(error))
        ):
            # It failed before any code of fflbench ran.
            answer = CannotRun(f"fflbench cannot be imported there: {last_line_of_error(error)}")
            yield from self._exclude_nodes(job, there, answer)
        elif self.settings.stopping.is_set() and (died or gone):
            # A batch system ends everything that belongs to a job, workers and nodes included.
            yield Interrupted(job.cell, "its worker was ended with the run; it resumes from its last checkpoint")
        elif gone or (died and not self._is_node_alive(attempt.node)):
            yield from self._retry_after_node_loss(attempt)
        elif isinstance(error, errors.OutOfMemoryError):
            yield failed_cell_event(job, self.settings, f"{KILLED_FOR_MEMORY} (node {node})")
        elif died:
            yield failed_cell_event(job, self.settings, f"the worker died (node {node})")
        else:
            reason = f"Ray could not run it (node {node}): {last_line_of_error(error)}"
            yield failed_cell_event(job, self.settings, reason, ran=attempt.since is not None)

    def _handle_result(self, attempt: _Attempt, result: Record | CannotRun | Stopped) -> Iterator[Event]:
        job = attempt.job
        if isinstance(result, Record):
            yield Finished(job.cell, result)
        elif isinstance(result, CannotRun):
            yield from self._exclude_nodes(job, [attempt.node], result)
        else:
            yield Interrupted(job.cell, str(Stopped(result.saved and not attempt.checkpoint_lost)))

    def _exclude_nodes(self, job: Job, nodes: Sequence[str], answer: CannotRun) -> Iterator[Event]:
        """Exclude nodes that cannot run a cell, and queue the cell for another node."""
        reasons = self.excluded.setdefault(answer.missing, {})
        for node in nodes:
            if node not in reasons:
                yield Note(f"node {self._node_name(node)} is excluded from such cells: {answer.reason}")
            reasons[node] = answer.reason
        yield Interrupted(job.cell, "runs on another node")
        self.waiting.insert(0, job)

    def _retry_after_node_loss(self, attempt: _Attempt) -> Iterator[Event]:
        """Queue a cell again from its last checkpoint after its node was lost, up to the number of retries."""
        job, node = attempt.job, self._node_name(attempt.node)
        self.lost[job.cell.id] += 1
        if (times := self.lost[job.cell.id]) > self.settings.retries:
            yield failed_cell_event(job, self.settings, f"lost its node {times} times, last {node} (--retries)")
        else:
            yield Interrupted(job.cell, f"node {node} is gone; retry {times} of {self.settings.retries}")
            self.waiting.insert(0, job)

    def _cancel_overdue_and_unplaceable(self) -> Iterator[Event]:
        """Cancel cells that take too long or that no node has the resources for."""
        now = time.monotonic()
        for ref, attempt in self.attempts.items():
            if attempt.failure is None and attempt.since is not None and now - attempt.since > self.settings.timeout:
                attempt.failure = timeout_event(attempt.job, self.settings)
                self.ray.cancel(ref, force=True)
        if now - self.last_check < CHECK_SECONDS:
            return
        self.last_check = now
        if not is_server_listening(self.head):
            if now - self.head_answered > MOST_WAIT_SECONDS:
                silent = f"its head has not answered for {MOST_WAIT_SECONDS:g} s"
                raise SuiteError(f"the Ray cluster is gone: {silent}; {HOW_TO_RESUME}")
            return
        self.head_answered, self.nodes = now, self._list_alive_nodes()
        for ref, attempt in self.attempts.items():
            if attempt.since is None and not attempt.requeued and not self._some_node_can_run(attempt.job):
                attempt.requeued = True
                self.ray.cancel(ref, force=True)
        yield from self._fail_cells_without_node(now)

    def _fail_cells_without_node(self, now: float) -> Iterator[Event]:
        """Fail the cells that every node refused, or that waited too long for a node with enough resources."""
        without = [job for job in self.waiting if not self._some_node_can_run(job)]
        self.waiting_since = {needs: self.waiting_since.get(needs, now) for needs in map(_needed_resources, without)}
        for job in without:
            if excluded := self._nodes_excluded_for(job):
                reasons = "; ".join(f"node {self._node_name(node)}: {why}" for node, why in excluded.items())
                why = f"no node can run it: {reasons}"
            elif now - self.waiting_since[_needed_resources(job)] > MOST_WAIT_SECONDS:
                needs = f"{job.cpus:g} processors, {job.gpus:g} GPUs and {format_bytes(job.memory)} of memory"
                why = f"no node of the cluster has {needs}"
            else:
                continue
            self.waiting.remove(job)
            yield failed_cell_event(job, self.settings, why, ran=False)

    def _nodes_excluded_for(self, job: Job) -> dict[str, str]:
        """Return the nodes that cannot run a cell, and the reason of each."""
        if not self.excluded:
            return {}
        reasons = [self.excluded[part] for part in self.excluded.keys() & names_of_required_parts(job.cell)]
        return {node: why for each in reasons for node, why in each.items() if node in self.nodes}

    def _some_node_can_run(self, job: Job) -> bool:
        """Return whether some present node, if it were idle, could run a job."""
        excluded = self._nodes_excluded_for(job)
        return any(
            all(node["Resources"].get(name, 0) >= amount for name, amount in _needed_resources(job))
            for key, node in self.nodes.items()
            if key not in excluded
        )

    def _ask_cells_to_stop(self) -> None:
        """Ask running cells to save their state and stop, and cancel those that have not begun."""
        if self.stop_sent:
            return
        self.stop_sent = True
        self.ray.get(self.collector.stop.remote())
        for ref, attempt in self.attempts.items():
            if attempt.since is None:
                self.ray.cancel(ref)

    def _list_alive_nodes(self) -> dict[str, Mapping[str, Any]]:
        known = self.ray.nodes()
        self.names |= {node["NodeID"]: str(node["NodeName"]) for node in known}
        return {node["NodeID"]: node for node in known if node["Alive"]}

    def _is_node_alive(self, node: str) -> bool:
        """Return whether a node is alive."""
        self.nodes = self._list_alive_nodes()
        return node in self.nodes

    def _nodes_where_raised(self, error: Exception) -> list[str]:
        """Return the nodes of the machine where an error arose; Ray names its address only in the error's text."""
        address = re.search(r"\bip=([^,)\s]+)", str(error))
        return [key for key, node in self.nodes.items() if address and node["NodeManagerAddress"] == address[1]]

    def _node_name(self, node: str) -> str:
        """Return the readable name of a node."""
        if node and node not in self.names:
            self._list_alive_nodes()
        return self.names.get(node, "unknown")


Resources = tuple[tuple[str, float], ...]


def _needed_resources(job: Job) -> Resources:
    """Return the resources that a cell needs, by Ray's names."""
    return ("CPU", job.cpus), ("GPU", job.gpus), ("memory", job.memory)


def _make_node_settings(settings: RunSettings) -> NodeSettings:
    sources = tuple((name, Path(name).read_text("utf-8")) for name in settings.plugins if name.endswith(".py"))
    data = str(Path(os.environ[ENVIRONMENT]).absolute()) if os.environ.get(ENVIRONMENT) else ""
    return NodeSettings(settings.suite, settings.device, settings.plugins, sources, data, __version__, source_commit())

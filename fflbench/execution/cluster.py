"""Executor for a Ray cluster (Moritz et al., Ray: a distributed framework for emerging AI applications, OSDI 2018).

Ray places each cell on a node with the processors, GPUs and memory that it needs. Records and checkpoints are sent to
the driver, which alone writes them, so no disk is shared. Plugins that are files are sent as text, modules as Ray's
py_modules, together with the path of the data. A node that lacks a part of a cell reports it and gets no such cell
again.
"""

import importlib.util
import itertools
import logging
import os
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fflbench import __version__
from fflbench.data.sources import ENVIRONMENT
from fflbench.errors import SuiteError
from fflbench.execution.jobs import (
    LOST_FOR_MEMORY,
    TICK,
    Event,
    Events,
    Finished,
    Job,
    Note,
    Progress,
    Returned,
    Started,
    Stopped,
    Terms,
    Unfit,
    failed,
    too_long,
)
from fflbench.execution.node import Baggage, Desk, last_line, parts_of, play
from fflbench.execution.units import readable_bytes
from fflbench.records.manifest import commit, results_versions
from fflbench.records.record import Record
from fflbench.records.store import write_whole

CHECK_SECONDS = 2.0
"""Seconds between two checks of the nodes."""
PATIENCE = 30.0
"""Seconds that a cell waits for a node with enough resources, and the driver for an answer of the head node."""
FETCH_SECONDS = 60.0
"""Most seconds for the transfer of a checkpoint to the driver."""
SPARE = 4
"""Cells that Ray is given beyond its capacity, so that no processor waits for the driver."""
GONE = "what is finished is kept, and the same command goes on"


@dataclass
class _Attempt:
    """Attempt to run a cell on the cluster."""

    job: Job
    number: int
    node: str = ""
    since: float | None = None
    """Time at which it began, if it has."""
    given_up: Finished | None = None
    """Failure to report, if it was cancelled for good."""
    withdrawn: bool = False
    """Whether it was cancelled because no present node has the resources."""
    unkept: bool = False
    """Whether its last checkpoint was lost in transfer."""


def execute(
    jobs: Sequence[Job], terms: Terms, *, address: str | None, workers: int | None = None, retries: int = 3
) -> Events:
    """Run all jobs and yield events as they happen; closing this generator stops everything at once."""
    with _connected(address, terms.plugins) as ray:
        try:
            yield from _Driver(ray, jobs, terms, workers, retries).run()
        except ray.exceptions.RayError as error:
            raise SuiteError(f"the Ray cluster is gone: {last_line(error)}; {GONE}") from error


class _Driver:
    """Driver of a run on a cluster."""

    def __init__(self, ray: Any, jobs: Sequence[Job], terms: Terms, workers: int | None, retries: int) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.ray, self.terms, self.retries = ray, terms, retries
        self.workers, self.waiting = workers, list(jobs)
        self.attempts: dict[Any, _Attempt] = {}
        """Running attempts, by Ray's reference to their result."""
        self.by_cell: dict[str, _Attempt] = {}
        self.submitted = 0
        self.lost: Counter[str] = Counter()
        """Number of nodes lost while they ran a cell."""
        self.unfit: dict[str, dict[str, str]] = {}
        """Nodes that cannot run a cell, with the reason, by the part of the cell that they lack."""
        self.unplaced: dict[Ask, float] = {}
        """Time since which no node has had the resources that a cell needs, by those resources."""
        self.gcs = ray.get_runtime_context().gcs_address
        self.stop_sent, self.last_check, self.answered = False, -CHECK_SECONDS, time.monotonic()
        self.baggage = ray.put(_baggage(terms))
        self.play = ray.remote(play)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.desk = ray.remote(num_cpus=0)(Desk).options(scheduling_strategy=here).remote()
        self.names: dict[str, str] = {}
        self.nodes = self._alive()

    def run(self) -> Events:
        """Run all jobs and yield events until none is left."""
        try:
            while self.waiting or self.attempts:
                yield from self._step()
        finally:
            with suppress(self.ray.exceptions.RayError):
                for ref in self.attempts:
                    self.ray.cancel(ref, force=True)

    def _step(self) -> Iterator[Event | None]:
        """Submit jobs, wait for at most one tick, and yield what happened."""
        if self.terms.stopping.is_set():
            self.waiting.clear()
            self._stop()
        for job in list(itertools.islice(filter(self._room, self.waiting), max(0, self._most() - len(self.attempts)))):
            self.waiting.remove(job)
            self._submit(job)
        over = self._wait(1, TICK) and self._wait(len(self.attempts), 0)
        # Reports from before the end of an attempt are handled before the end.
        yield from self._reports()
        for ref in over:
            attempt = self.attempts.pop(ref)
            del self.by_cell[attempt.job.cell.id]
            yield from self._over(attempt, ref)
        yield from self._check_nodes()
        yield None

    def _most(self) -> int:
        """Return the number of cells that Ray is given at a time."""
        return self.workers or SPARE + int(sum(node["Resources"].get("CPU", 0) for node in self.nodes.values()))

    def _wait(self, count: int, seconds: float) -> list[Any]:
        if not self.attempts:
            time.sleep(seconds)
            return []
        ready: list[Any] = self.ray.wait(list(self.attempts), num_returns=count, timeout=seconds)[0]
        return ready

    def _submit(self, job: Job) -> None:
        avoid = self._refused(job)
        options: dict[str, Any] = {"label_selector": {"ray.io/node-id": f"!in({','.join(avoid)})"}} if avoid else {}
        checkpoint = self.terms.store.checkpoint(job.cell.id)
        kept = checkpoint.read_bytes() if checkpoint.is_file() else None
        ref = self.play.options(
            name=str(job.cell),
            num_cpus=job.cpus,
            num_gpus=job.gpus,
            memory=job.memory,
            # The driver counts retries itself.
            max_retries=0,
            **options,
        ).remote(job.cell, results_versions(job.cell.configuration), self.submitted, self.baggage, kept, self.desk)
        self.attempts[ref] = self.by_cell[job.cell.id] = _Attempt(job, self.submitted)
        self.submitted += 1

    def _reports(self) -> Iterator[Event]:
        """Yield the events that cells have reported to the desk."""
        for cell, number, kind, content in self.ray.get(self.desk.read.remote()):
            attempt = self.by_cell.get(cell)
            if attempt is None or attempt.number != number:
                # From an attempt that was cancelled or assumed lost.
                continue
            match kind:
                case "started":
                    attempt.node, attempt.since = content, time.monotonic()
                    yield Started(attempt.job.cell, self._name(content))
                case "round":
                    yield Progress(attempt.job.cell, *content)
                case "kept":
                    yield from self._fetch(attempt, content)
                case "note":
                    yield Note(content)

    def _fetch(self, attempt: _Attempt, reference: Sequence[Any]) -> Iterator[Event]:
        """Transfer a checkpoint from its node to the driver's store."""
        cell = attempt.job.cell
        try:
            write_whole(self.terms.store.checkpoint(cell.id), self.ray.get(reference[0], timeout=FETCH_SECONDS))
            attempt.unkept = False
        except (self.ray.exceptions.RayError, OSError) as error:
            attempt.unkept = True
            why = getattr(error, "strerror", None) or last_line(error)
            yield Note(f"the checkpoint of {cell} could not be kept: {why}")

    def _over(self, attempt: _Attempt, ref: Any) -> Iterator[Event]:
        """Yield the events that follow from the end of an attempt."""
        try:
            result = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            yield from self._without_result(attempt, error)
        else:
            yield from self._answered(attempt, result)

    def _without_result(self, attempt: _Attempt, error: Any) -> Iterator[Event]:
        """Handle an attempt that ended without a result: cancelled by the driver, or failed."""
        job = attempt.job
        if attempt.given_up:
            yield attempt.given_up
        elif attempt.withdrawn:
            self.waiting.insert(0, job)
            if attempt.since is not None:
                yield Returned(job.cell, "goes to another node")
        elif isinstance(error, self.ray.exceptions.TaskCancelledError):
            # It was about to begin when the run was stopped.
            if attempt.since is not None:
                yield Returned(job.cell, "stopped before its first round")
        else:
            yield from self._crashed(attempt, error)

    def _crashed(self, attempt: _Attempt, error: Any) -> Iterator[Event]:
        """Handle an attempt that was lost with its worker or node, or that Ray could not run."""
        errors = self.ray.exceptions
        job, node = attempt.job, self._name(attempt.node)
        died = isinstance(error, errors.WorkerCrashedError)
        gone = isinstance(error, errors.NodeDiedError | errors.ObjectLostError)
        if attempt.since is None and isinstance(error, errors.RayTaskError) and (there := self._nodes_of(error)):
            # It failed before any code of fflbench ran.
            yield from self._refuse(job, there, Unfit(f"fflbench cannot be imported there: {last_line(error)}"))
        elif self.terms.stopping.is_set() and (died or gone):
            # A batch system ends everything that belongs to a job, workers and nodes included.
            yield Returned(job.cell, "its worker was ended with the run; it goes on from its last checkpoint")
        elif gone or (died and not self._is_alive(attempt.node)):
            yield from self._lost(attempt)
        elif isinstance(error, errors.OutOfMemoryError):
            yield failed(job, self.terms, f"{LOST_FOR_MEMORY} (node {node})")
        elif died:
            yield failed(job, self.terms, f"the worker died (node {node})")
        else:
            reason = f"Ray could not run it (node {node}): {last_line(error)}"
            yield failed(job, self.terms, reason, ran=attempt.since is not None)

    def _answered(self, attempt: _Attempt, result: Record | Unfit | Stopped) -> Iterator[Event]:
        job = attempt.job
        if isinstance(result, Record):
            yield Finished(job.cell, result)
        elif isinstance(result, Unfit):
            yield from self._refuse(job, [attempt.node], result)
        else:
            yield Returned(job.cell, str(Stopped(result.kept and not attempt.unkept)))

    def _refuse(self, job: Job, nodes: Sequence[str], unfit: Unfit) -> Iterator[Event]:
        """Exclude nodes that cannot run a cell, and queue the cell for another node."""
        reasons = self.unfit.setdefault(unfit.about, {})
        for node in nodes:
            if node not in reasons:
                yield Note(f"node {self._name(node)} gets no such cells: {unfit.why}")
            reasons[node] = unfit.why
        yield Returned(job.cell, "goes to another node")
        self.waiting.insert(0, job)

    def _lost(self, attempt: _Attempt) -> Iterator[Event]:
        """Queue a cell again from its last checkpoint after its node was lost, up to the number of retries."""
        job, node = attempt.job, self._name(attempt.node)
        self.lost[job.cell.id] += 1
        if (times := self.lost[job.cell.id]) > self.retries:
            yield failed(job, self.terms, f"lost its node {times} times, the last was {node} (--retries)")
        else:
            yield Returned(job.cell, f"node {node} is gone; tried again, time {times} of {self.retries}")
            self.waiting.insert(0, job)

    def _check_nodes(self) -> Iterator[Event]:
        """Cancel cells that take too long or that no node has the resources for."""
        now = time.monotonic()
        for ref, attempt in self.attempts.items():
            if attempt.given_up is None and attempt.since is not None and now - attempt.since > self.terms.timeout:
                attempt.given_up = too_long(attempt.job, self.terms)
                self.ray.cancel(ref, force=True)
        if now - self.last_check < CHECK_SECONDS:
            return
        self.last_check = now
        if not _answers(self.gcs):
            if now - self.answered > PATIENCE:
                raise SuiteError(f"the Ray cluster is gone: its head has not answered for {PATIENCE:g} s; {GONE}")
            return
        self.answered, self.nodes = now, self._alive()
        for ref, attempt in self.attempts.items():
            if attempt.since is None and not attempt.withdrawn and not self._room(attempt.job):
                attempt.withdrawn = True
                self.ray.cancel(ref, force=True)
        yield from self._without_room(now)

    def _without_room(self, now: float) -> Iterator[Event]:
        """Fail the cells that every node refused, or that waited too long for a node with enough resources."""
        without = [job for job in self.waiting if not self._room(job)]
        self.unplaced = {ask: self.unplaced.get(ask, now) for ask in map(_ask, without)}
        for job in without:
            if refused := self._refused(job):
                reasons = "; ".join(f"node {self._name(node)}: {why}" for node, why in refused.items())
                why = f"no node can play it: {reasons}"
            elif now - self.unplaced[_ask(job)] > PATIENCE:
                asks = f"{job.cpus:g} processors, {job.gpus:g} GPUs and {readable_bytes(job.memory)} of memory"
                why = f"no node of the cluster has {asks}"
            else:
                continue
            self.waiting.remove(job)
            yield failed(job, self.terms, why, ran=False)

    def _refused(self, job: Job) -> dict[str, str]:
        """Return the nodes that cannot run a cell, and the reason of each."""
        if not self.unfit:
            return {}
        reasons = [self.unfit[part] for part in self.unfit.keys() & parts_of(job.cell)]
        return {node: why for each in reasons for node, why in each.items() if node in self.nodes}

    def _room(self, job: Job) -> bool:
        """Return whether some present node, if it were idle, could run a job."""
        refused = self._refused(job)
        return any(
            all(node["Resources"].get(name, 0) >= amount for name, amount in _ask(job))
            for key, node in self.nodes.items()
            if key not in refused
        )

    def _stop(self) -> None:
        """Ask running cells to save their state and stop, and cancel those that have not begun."""
        if self.stop_sent:
            return
        self.stop_sent = True
        self.ray.get(self.desk.stop.remote())
        for ref, attempt in self.attempts.items():
            if attempt.since is None:
                self.ray.cancel(ref)

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        known = self.ray.nodes()
        self.names |= {node["NodeID"]: str(node["NodeName"]) for node in known}
        return {node["NodeID"]: node for node in known if node["Alive"]}

    def _is_alive(self, node: str) -> bool:
        """Return whether a node is alive."""
        self.nodes = self._alive()
        return node in self.nodes

    def _nodes_of(self, error: Exception) -> list[str]:
        """Return the nodes of the machine where an error arose; Ray names its address only in the error's text."""
        address = re.search(r"\bip=([^,)\s]+)", str(error))
        return [key for key, node in self.nodes.items() if address and node["NodeManagerAddress"] == address[1]]

    def _name(self, node: str) -> str:
        """Return the readable name of a node."""
        if node and node not in self.names:
            self._alive()
        return self.names.get(node, "unknown")


Ask = tuple[tuple[str, float], ...]


def _ask(job: Job) -> Ask:
    """Return the resources that a cell needs, by Ray's names."""
    return ("CPU", job.cpus), ("GPU", job.gpus), ("memory", job.memory)


@contextmanager
def _connected(address: str | None, plugins: Sequence[str]) -> Iterator[Any]:
    """Connect Ray to the cluster at the address, or to a new one on this machine, and yield the module.

    By itself, Ray would look for a cluster on this machine, and wait for minutes for one that has ended.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise SuiteError("--executor ray needs Ray: pip install 'fflbench[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_address(address)
    env = {"py_modules": modules} if (modules := _modules_to_send(plugins)) else None
    try:
        with _signals_restored():
            ray.init(address=address, runtime_env=env, log_to_driver=False, logging_level=logging.CRITICAL)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: {last_line(error)}") from error
    # From a thread, Ray prints the complaints of nodes to standard output, which is for tables.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _signals_restored() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces by one that exits without saving the state of cells.

    A cluster started here inherits SIGHUP blocked, so that only the driver handles a terminal that closes.
    """
    before = signal.getsignal(signal.SIGTERM)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_address(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would wait for minutes."""
    place = address.rpartition("://")[2]
    if ":" in place and not _answers(place):
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: nothing answers there")


def _answers(address: str) -> bool:
    """Return whether a server listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _modules_to_send(plugins: Sequence[str]) -> list[str]:
    """Return the files or folders of plugins that are modules but not installed in site-packages."""
    paths = []
    for plugin in plugins:
        spec = None if plugin.endswith(".py") else importlib.util.find_spec(plugin.partition(".")[0])
        if spec and spec.origin and "site-packages" not in spec.origin:
            file = Path(spec.origin)
            paths.append(str(file.parent if file.name == "__init__.py" else file))
    return sorted(set(paths))


def _baggage(terms: Terms) -> Baggage:
    sources = tuple((name, Path(name).read_text("utf-8")) for name in terms.plugins if name.endswith(".py"))
    data = str(Path(os.environ[ENVIRONMENT]).absolute()) if os.environ.get(ENVIRONMENT) else ""
    return Baggage(terms.suite, terms.device, terms.plugins, sources, data, __version__, commit())

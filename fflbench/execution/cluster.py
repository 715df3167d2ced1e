"""Cells on a Ray cluster (Moritz et al., Ray: a distributed framework for emerging AI applications, OSDI 2018).

Ray finds each cell a node with the processors, GPUs and memory that it asks for. Records and checkpoints come back to
the driver, which alone writes them, so no disk is shared. Plugins that are files travel as text, modules as Ray's
py_modules, and with them the place where data lies. A node that lacks something says what, and gets no such cell again.
"""

import importlib.util
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fflbench import __version__
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
    failed,
    too_long,
)
from fflbench.execution.node import DATA, Baggage, Desk, Unfit, last_line, play
from fflbench.measures import readable_bytes
from fflbench.records.manifest import commit, results_versions
from fflbench.records.record import Record
from fflbench.records.store import write_whole
from fflbench.suites.plan import Cell

LOOK_SECONDS = 2.0
"""How often the driver looks at the nodes."""
PATIENCE = 30.0
"""Seconds that a cell waits for a node that could hold it to join."""


@dataclass
class _Try:
    """A cell on its way through the cluster."""

    job: Job
    number: int
    node: str = ""
    since: float | None = None
    """When it began, if it has."""
    homeless: float | None = None
    """Since when no node could hold it."""
    given_up: Finished | None = None
    """Why it was cancelled, if it was."""


def execute(
    jobs: Sequence[Job], terms: Terms, *, address: str | None, workers: int | None = None, retries: int = 3
) -> Events:
    """Run all jobs; yields what happens, as it happens. Closing this generator stops everything at once."""
    with _connected(address, workers, terms.plugins) as ray:
        driver = _Driver(ray, jobs, terms, workers, retries)
        try:
            while driver.waiting or driver.tries:
                yield from driver.step()
        except ray.exceptions.RayError as error:
            raise SuiteError(
                f"the Ray cluster is gone: {last_line(error)}; what is finished is kept, and the same command goes on"
            ) from error
        finally:
            with suppress(ray.exceptions.RayError):
                for ref in driver.tries:
                    ray.cancel(ref, force=True)


class _Driver:
    """What the driver knows of a run on a cluster."""

    def __init__(self, ray: Any, jobs: Sequence[Job], terms: Terms, workers: int | None, retries: int) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.ray, self.terms, self.retries = ray, terms, retries
        self.workers, self.waiting = workers, deque(jobs)
        self.tries: dict[Any, _Try] = {}
        """Attempts that are not over, by the reference to what will come of them."""
        self.by_cell: dict[str, _Try] = {}
        self.submitted = 0
        self.lost: Counter[str] = Counter()
        """How many nodes were lost under a cell."""
        self.unfit: dict[str, dict[str, str]] = {}
        """By task: which nodes cannot play it, and why."""
        self.gcs = ray.get_runtime_context().gcs_address
        self.told_to_stop, self.looked = False, -LOOK_SECONDS
        self.baggage = ray.put(_baggage(terms))
        self.play = ray.remote(play)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.desk = ray.remote(num_cpus=0)(Desk).options(scheduling_strategy=here).remote()
        self.names: dict[str, str] = {}
        self.nodes = self._alive()

    def step(self) -> Iterator[Event | None]:
        """Submit what may be submitted, wait a little, and tell what happened."""
        if self.terms.stopping.is_set():
            self.waiting.clear()
            self._stop()
        while self.waiting and len(self.tries) < self._most():
            self._submit(self.waiting.popleft())
        over = self._wait(1, TICK) and self._wait(len(self.tries), 0)
        # What was told before the end comes before it.
        yield from self._news()
        for ref in over:
            attempt = self.tries.pop(ref)
            del self.by_cell[attempt.job.cell.id]
            yield from self._over(attempt, ref)
        self._look()
        yield None

    def _most(self) -> int:
        """How many cells Ray is given at a time: what it has room for, and as many that wait for room."""
        return self.workers or 2 * max(1, int(sum(node["Resources"].get("CPU", 0) for node in self.nodes.values())))

    def _wait(self, count: int, seconds: float) -> list[Any]:
        ready: list[Any] = self.ray.wait(list(self.tries), num_returns=count, timeout=seconds)[0] if self.tries else []
        return ready

    def _submit(self, job: Job) -> None:
        avoid = self.unfit.get(_task_of(job.cell), {})
        options: dict[str, Any] = {"label_selector": {"ray.io/node-id": f"!in({','.join(avoid)})"}} if avoid else {}
        checkpoint = self.terms.store.checkpoint(job.cell.id)
        kept = checkpoint.read_bytes() if checkpoint.is_file() else None
        ref = self.play.options(
            name=str(job.cell),
            num_cpus=job.cpus,
            num_gpus=job.gpus,
            memory=job.memory,
            # What is tried again, and how often, is for us to say.
            max_retries=0,
            **options,
        ).remote(job.cell, results_versions(job.cell), self.submitted, self.baggage, kept, self.desk)
        self.tries[ref] = self.by_cell[job.cell.id] = _Try(job, self.submitted)
        self.submitted += 1

    def _news(self) -> Iterator[Event]:
        """What cells have put on the desk."""
        for cell, number, kind, said in self.ray.get(self.desk.read.remote()):
            attempt = self.by_cell.get(cell)
            if attempt is None or attempt.number != number:
                # From an attempt that was given up or taken for lost.
                continue
            if kind == "kept":
                try:
                    write_whole(self.terms.store.checkpoint(cell), said)
                except OSError as error:
                    yield Note(f"the checkpoint of {attempt.job.cell} could not be kept: {error.strerror}")
            elif kind == "started":
                attempt.node, attempt.since = said, time.monotonic()
                yield Started(attempt.job.cell, self._name(said))
            elif kind == "note":
                yield Note(said)
            else:
                yield Progress(attempt.job.cell, *said)

    def _over(self, attempt: _Try, ref: Any) -> Iterator[Event]:
        """How an attempt ended."""
        errors = self.ray.exceptions
        job, node = attempt.job, self._name(attempt.node)
        try:
            said = self.ray.get(ref)
        except errors.RayError as error:
            if attempt.given_up:
                yield attempt.given_up
            elif isinstance(error, errors.TaskCancelledError):
                # It was about to begin when the run was stopped.
                if attempt.since is not None:
                    yield Returned(job.cell, "stopped before its first round")
            elif self._gone(error, attempt.node):
                yield from self._lost(attempt)
            elif isinstance(error, errors.OutOfMemoryError):
                yield failed(job, self.terms, f"{LOST_FOR_MEMORY} (node {node})")
            elif isinstance(error, errors.WorkerCrashedError):
                yield failed(job, self.terms, f"the worker died (node {node})")
            else:
                yield failed(job, self.terms, f"Ray could not run it (node {node}): {last_line(error)}")
        else:
            yield from self._answered(attempt, said)

    def _gone(self, error: Exception, node: str) -> bool:
        """Whether it was the node that failed, and not the cell."""
        errors = self.ray.exceptions
        if isinstance(error, errors.WorkerCrashedError):
            self.nodes = self._alive()
            return node not in self.nodes
        return isinstance(error, errors.NodeDiedError | errors.ObjectLostError)

    def _answered(self, attempt: _Try, said: Record | Unfit | Stopped) -> Iterator[Event]:
        job = attempt.job
        if isinstance(said, Record):
            yield Finished(job.cell, said)
        elif isinstance(said, Unfit):
            reasons = self.unfit.setdefault(_task_of(job.cell), {})
            if attempt.node not in reasons:
                yield Note(f"node {self._name(attempt.node)} gets no such cells: {said.why}")
            reasons[attempt.node] = said.why
            self.nodes = self._alive()
            if nobody := self._nobody(job):
                yield nobody
            else:
                yield Returned(job.cell, "goes to another node")
                self.waiting.appendleft(job)
        else:
            yield Returned(job.cell, str(said))

    def _lost(self, attempt: _Try) -> Iterator[Event]:
        """A node is gone, and a cell with it: the cell is tried again, with what is kept of it."""
        job, node = attempt.job, self._name(attempt.node)
        self.lost[job.cell.id] += 1
        if (times := self.lost[job.cell.id]) > self.retries:
            yield failed(job, self.terms, f"lost its node {times} times, the last was {node} (--retries)")
        else:
            yield Returned(job.cell, f"node {node} is gone; tried again, time {times} of {self.retries}")
            self.waiting.appendleft(job)

    def _look(self) -> None:
        """Give up what takes too long, and what no node can hold."""
        now = time.monotonic()
        for ref, attempt in self.tries.items():
            if attempt.given_up is None and attempt.since is not None and now - attempt.since > self.terms.timeout:
                self._give_up(ref, attempt, too_long(attempt.job, self.terms))
        if now - self.looked < LOOK_SECONDS:
            return
        if not _answers(self.gcs):
            raise SuiteError("the Ray cluster is gone; what is finished is kept, and the same command goes on")
        self.looked, self.nodes = now, self._alive()
        for ref, attempt in self.tries.items():
            if attempt.since is not None or attempt.given_up or self._room(attempt.job):
                attempt.homeless = None
            elif nobody := self._nobody(attempt.job):
                self._give_up(ref, attempt, nobody)
            elif attempt.homeless is None:
                attempt.homeless = now
            elif now - attempt.homeless > PATIENCE:
                job = attempt.job
                asks = f"{job.cpus:g} processors, {job.gpus:g} GPUs and {readable_bytes(job.memory)} of memory"
                self._give_up(ref, attempt, failed(job, self.terms, f"no node of the cluster has {asks}", ran=False))

    def _give_up(self, ref: Any, attempt: _Try, why: Finished) -> None:
        attempt.given_up = why
        self.ray.cancel(ref, force=True)

    def _nobody(self, job: Job) -> Finished | None:
        """The end of a cell that was refused by every node that could hold it."""
        reasons = self.unfit.get(_task_of(job.cell), {})
        if not reasons or self._room(job):
            return None
        told = "; ".join(f"node {self._name(node)}: {why}" for node, why in reasons.items())
        return failed(job, self.terms, f"no node can play it: {told}", ran=False)

    def _room(self, job: Job) -> bool:
        """Whether a node that is there could hold it, were it empty."""
        asked = {"CPU": job.cpus, "GPU": job.gpus, "memory": job.memory}
        avoid = self.unfit.get(_task_of(job.cell), {})
        return any(
            all(node["Resources"].get(name, 0) >= amount for name, amount in asked.items())
            for key, node in self.nodes.items()
            if key not in avoid
        )

    def _stop(self) -> None:
        """Let what is under way keep its state, and the rest not begin."""
        if self.told_to_stop:
            return
        self.told_to_stop = True
        self.ray.get(self.desk.stop.remote())
        for ref, attempt in self.tries.items():
            if attempt.since is None:
                self.ray.cancel(ref)

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        known = self.ray.nodes()
        self.names |= {node["NodeID"]: str(node["NodeName"]) for node in known}
        return {node["NodeID"]: node for node in known if node["Alive"]}

    def _name(self, node: str) -> str:
        """What people call a node."""
        if node and node not in self.names:
            self._alive()
        return self.names.get(node, "unknown")


@contextmanager
def _connected(address: str | None, workers: int | None, plugins: Sequence[str]) -> Iterator[Any]:
    """Ray, connected to a cluster: the one at the address, else one that runs here, else one started for this run."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise SuiteError("--executor ray needs Ray: pip install 'fflbench[ray]'") from error
    if ray.is_initialized():
        yield ray
        return
    if address:
        _look_for(address)
    env = {"py_modules": modules} if (modules := _travelling_modules(plugins)) else None
    try:
        with _sigterm_as_it_was():
            ray.init(address=address, runtime_env=env, log_to_driver=False, logging_level=logging.CRITICAL)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        where = f"--address {address}" if address else "--executor ray"
        raise SuiteError(f"{where}: no Ray cluster can be reached: {last_line(error)}") from error
    # Ray prints what nodes complain of, from a thread and on standard output, where tables go.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _sigterm_as_it_was() -> Iterator[None]:
    """Ray takes it for itself and exits at once, where a batch system means that cells shall keep their state."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _look_for(address: str) -> None:
    """Refuse an address where nobody listens; Ray itself would wait for minutes."""
    place = address.rpartition("://")[2]
    if ":" in place and not _answers(place):
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: nobody answers there")


def _answers(address: str) -> bool:
    """Whether somebody listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _travelling_modules(plugins: Sequence[str]) -> list[str]:
    """The files or folders of plugins that are modules, but for those that are installed as packages are."""
    found = []
    for plugin in plugins:
        spec = None if plugin.endswith(".py") else importlib.util.find_spec(plugin.partition(".")[0])
        if spec and spec.origin and "site-packages" not in spec.origin:
            file = Path(spec.origin)
            found.append(str(file.parent if file.name == "__init__.py" else file))
    return sorted(set(found))


def _baggage(terms: Terms) -> Baggage:
    sources = tuple((name, Path(name).read_text("utf-8")) for name in terms.plugins if name.endswith(".py"))
    data = str(Path(os.environ[DATA]).absolute()) if os.environ.get(DATA) else ""
    return Baggage(terms.suite, terms.device, terms.plugins, sources, data, __version__, commit())


def _task_of(cell: Cell) -> str:
    return str(cell.configuration["task"]["name"])

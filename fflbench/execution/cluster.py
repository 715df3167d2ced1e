"""Cells on a Ray cluster (Moritz et al., Ray: a distributed framework for emerging AI applications, OSDI 2018).

Ray finds each cell a node with the processors, GPUs and memory that it asks for. Records and checkpoints come back to
the driver, which alone writes them, so no disk is shared. Plugins that are files travel as text, modules as Ray's
py_modules, and with them the place where data lies. A node that lacks something says what, and gets no such cell again.
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
from fflbench.records.manifest import commit, results_versions
from fflbench.records.record import Record
from fflbench.records.store import write_whole
from fflbench.units import readable_bytes

LOOK_SECONDS = 2.0
"""How often the driver looks at the nodes."""
PATIENCE = 30.0
"""Seconds that a cell waits for a node that could hold it to join, and the driver for a head that does not answer."""
FETCH_SECONDS = 60.0
"""How long a checkpoint may take on its way home."""
SPARE = 4
"""Cells that Ray is given beyond what it has room for, so that no processor waits for the driver."""
GONE = "what is finished is kept, and the same command goes on"


@dataclass
class _Try:
    """A cell on its way through the cluster."""

    job: Job
    number: int
    node: str = ""
    since: float | None = None
    """When it began, if it has."""
    given_up: Finished | None = None
    """Why it was cancelled, if it was for good."""
    withdrawn: bool = False
    """Whether it was cancelled since no node that is there could hold it."""
    unkept: bool = False
    """Whether its last checkpoint was lost on the way."""


def execute(
    jobs: Sequence[Job], terms: Terms, *, address: str | None, workers: int | None = None, retries: int = 3
) -> Events:
    """Run all jobs; yields what happens, as it happens. Closing this generator stops everything at once."""
    with _connected(address, terms.plugins) as ray:
        try:
            yield from _Driver(ray, jobs, terms, workers, retries).run()
        except ray.exceptions.RayError as error:
            raise SuiteError(f"the Ray cluster is gone: {last_line(error)}; {GONE}") from error


class _Driver:
    """What the driver knows of a run on a cluster."""

    def __init__(self, ray: Any, jobs: Sequence[Job], terms: Terms, workers: int | None, retries: int) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.ray, self.terms, self.retries = ray, terms, retries
        self.workers, self.waiting = workers, list(jobs)
        self.tries: dict[Any, _Try] = {}
        """Attempts that are not over, by the reference to what will come of them."""
        self.by_cell: dict[str, _Try] = {}
        self.submitted = 0
        self.lost: Counter[str] = Counter()
        """How many nodes were lost under a cell."""
        self.unfit: dict[str, dict[str, str]] = {}
        """By part of a cell: which nodes cannot play cells with it, and why."""
        self.homeless: dict[Ask, float] = {}
        """Since when no node has what some cell asks for."""
        self.gcs = ray.get_runtime_context().gcs_address
        self.told_to_stop, self.looked, self.answered = False, -LOOK_SECONDS, time.monotonic()
        self.baggage = ray.put(_baggage(terms))
        self.play = ray.remote(play)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.desk = ray.remote(num_cpus=0)(Desk).options(scheduling_strategy=here).remote()
        self.names: dict[str, str] = {}
        self.nodes = self._alive()

    def run(self) -> Events:
        """Go on until nothing is left to do."""
        try:
            while self.waiting or self.tries:
                yield from self._step()
        finally:
            with suppress(self.ray.exceptions.RayError):
                for ref in self.tries:
                    self.ray.cancel(ref, force=True)

    def _step(self) -> Iterator[Event | None]:
        """Submit what may be submitted, wait a little, and tell what happened."""
        if self.terms.stopping.is_set():
            self.waiting.clear()
            self._stop()
        for job in list(itertools.islice(filter(self._room, self.waiting), max(0, self._most() - len(self.tries)))):
            self.waiting.remove(job)
            self._submit(job)
        over = self._wait(1, TICK) and self._wait(len(self.tries), 0)
        # What was told before the end comes before it.
        yield from self._news()
        for ref in over:
            attempt = self.tries.pop(ref)
            del self.by_cell[attempt.job.cell.id]
            yield from self._over(attempt, ref)
        yield from self._look()
        yield None

    def _most(self) -> int:
        """How many cells Ray is given at a time."""
        return self.workers or SPARE + int(sum(node["Resources"].get("CPU", 0) for node in self.nodes.values()))

    def _wait(self, count: int, seconds: float) -> list[Any]:
        if not self.tries:
            time.sleep(seconds)
            return []
        ready: list[Any] = self.ray.wait(list(self.tries), num_returns=count, timeout=seconds)[0]
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
            # What is tried again, and how often, is for us to say.
            max_retries=0,
            **options,
        ).remote(job.cell, results_versions(job.cell.configuration), self.submitted, self.baggage, kept, self.desk)
        self.tries[ref] = self.by_cell[job.cell.id] = _Try(job, self.submitted)
        self.submitted += 1

    def _news(self) -> Iterator[Event]:
        """What cells have put on the desk."""
        for cell, number, kind, said in self.ray.get(self.desk.read.remote()):
            attempt = self.by_cell.get(cell)
            if attempt is None or attempt.number != number:
                # From an attempt that was given up or taken for lost.
                continue
            match kind:
                case "started":
                    attempt.node, attempt.since = said, time.monotonic()
                    yield Started(attempt.job.cell, self._name(said))
                case "round":
                    yield Progress(attempt.job.cell, *said)
                case "kept":
                    yield from self._fetch(attempt, said)
                case "note":
                    yield Note(said)

    def _fetch(self, attempt: _Try, said: Sequence[Any]) -> Iterator[Event]:
        """Bring a checkpoint home."""
        cell = attempt.job.cell
        try:
            write_whole(self.terms.store.checkpoint(cell.id), self.ray.get(said[0], timeout=FETCH_SECONDS))
            attempt.unkept = False
        except (self.ray.exceptions.RayError, OSError) as error:
            attempt.unkept = True
            why = getattr(error, "strerror", None) or last_line(error)
            yield Note(f"the checkpoint of {cell} could not be kept: {why}")

    def _over(self, attempt: _Try, ref: Any) -> Iterator[Event]:
        """How an attempt ended."""
        try:
            said = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            yield from self._broken(attempt, error)
        else:
            yield from self._answered(attempt, said)

    def _broken(self, attempt: _Try, error: Any) -> Iterator[Event]:
        """An attempt came to nothing: by the driver's will, its node's, or its own."""
        errors = self.ray.exceptions
        job, node = attempt.job, self._name(attempt.node)
        died = isinstance(error, errors.WorkerCrashedError)
        gone = isinstance(error, errors.NodeDiedError | errors.ObjectLostError)
        if attempt.given_up:
            yield attempt.given_up
        elif attempt.withdrawn:
            self.waiting.insert(0, job)
            if attempt.since is not None:
                yield Returned(job.cell, "goes to another node")
        elif isinstance(error, errors.TaskCancelledError):
            # It was about to begin when the run was stopped.
            if attempt.since is not None:
                yield Returned(job.cell, "stopped before its first round")
        elif attempt.since is None and isinstance(error, errors.RayTaskError) and (there := self._at(error)):
            # It did not come as far as our own code.
            yield from self._refuse(job, there, Unfit(f"fflbench cannot be imported there: {last_line(error)}"))
        elif self.terms.stopping.is_set() and (died or gone):
            # A batch system ends everything that belongs to a job, workers and nodes included.
            yield Returned(job.cell, "its worker was ended with the run; it goes on from its last checkpoint")
        elif gone or (died and not self._there(attempt.node)):
            yield from self._lost(attempt)
        elif isinstance(error, errors.OutOfMemoryError):
            yield failed(job, self.terms, f"{LOST_FOR_MEMORY} (node {node})")
        elif died:
            yield failed(job, self.terms, f"the worker died (node {node})")
        else:
            told = f"Ray could not run it (node {node}): {last_line(error)}"
            yield failed(job, self.terms, told, ran=attempt.since is not None)

    def _answered(self, attempt: _Try, said: Record | Unfit | Stopped) -> Iterator[Event]:
        job = attempt.job
        if isinstance(said, Record):
            yield Finished(job.cell, said)
        elif isinstance(said, Unfit):
            yield from self._refuse(job, [attempt.node], said)
        else:
            yield Returned(job.cell, str(Stopped(said.kept and not attempt.unkept)))

    def _refuse(self, job: Job, nodes: Sequence[str], unfit: Unfit) -> Iterator[Event]:
        """Nodes cannot play a cell: another may."""
        reasons = self.unfit.setdefault(unfit.about, {})
        for node in nodes:
            if node not in reasons:
                yield Note(f"node {self._name(node)} gets no such cells: {unfit.why}")
            reasons[node] = unfit.why
        yield Returned(job.cell, "goes to another node")
        self.waiting.insert(0, job)

    def _lost(self, attempt: _Try) -> Iterator[Event]:
        """A node is gone, and a cell with it: the cell is tried again, with what is kept of it."""
        job, node = attempt.job, self._name(attempt.node)
        self.lost[job.cell.id] += 1
        if (times := self.lost[job.cell.id]) > self.retries:
            yield failed(job, self.terms, f"lost its node {times} times, the last was {node} (--retries)")
        else:
            yield Returned(job.cell, f"node {node} is gone; tried again, time {times} of {self.retries}")
            self.waiting.insert(0, job)

    def _look(self) -> Iterator[Event]:
        """Give up what takes too long, and what no node can hold."""
        now = time.monotonic()
        for ref, attempt in self.tries.items():
            if attempt.given_up is None and attempt.since is not None and now - attempt.since > self.terms.timeout:
                attempt.given_up = too_long(attempt.job, self.terms)
                self.ray.cancel(ref, force=True)
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked = now
        if not _answers(self.gcs):
            if now - self.answered > PATIENCE:
                raise SuiteError(f"the Ray cluster is gone: its head has not answered for {PATIENCE:g} s; {GONE}")
            return
        self.answered, self.nodes = now, self._alive()
        for ref, attempt in self.tries.items():
            if attempt.since is None and not attempt.withdrawn and not self._room(attempt.job):
                attempt.withdrawn = True
                self.ray.cancel(ref, force=True)
        yield from self._without_room(now)

    def _without_room(self, now: float) -> Iterator[Event]:
        """The end of cells that every node has refused, or that have waited long enough for one to join."""
        without = [job for job in self.waiting if not self._room(job)]
        self.homeless = {ask: self.homeless.get(ask, now) for ask in map(_ask, without)}
        for job in without:
            if refused := self._refused(job):
                told = "; ".join(f"node {self._name(node)}: {why}" for node, why in refused.items())
                why = f"no node can play it: {told}"
            elif now - self.homeless[_ask(job)] > PATIENCE:
                asks = f"{job.cpus:g} processors, {job.gpus:g} GPUs and {readable_bytes(job.memory)} of memory"
                why = f"no node of the cluster has {asks}"
            else:
                continue
            self.waiting.remove(job)
            yield failed(job, self.terms, why, ran=False)

    def _refused(self, job: Job) -> dict[str, str]:
        """Which nodes cannot play a cell, and why."""
        if not self.unfit:
            return {}
        reasons = [self.unfit[part] for part in self.unfit.keys() & parts_of(job.cell)]
        return {node: why for each in reasons for node, why in each.items() if node in self.nodes}

    def _room(self, job: Job) -> bool:
        """Whether a node that is there could hold it, were it empty."""
        refused = self._refused(job)
        return any(
            all(node["Resources"].get(name, 0) >= amount for name, amount in _ask(job))
            for key, node in self.nodes.items()
            if key not in refused
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

    def _there(self, node: str) -> bool:
        """Whether a node lives."""
        self.nodes = self._alive()
        return node in self.nodes

    def _at(self, error: Exception) -> list[str]:
        """The nodes of the machine where an error arose, which Ray tells in its text alone."""
        told = re.search(r"\bip=([^,)\s]+)", str(error))
        return [key for key, node in self.nodes.items() if told and node["NodeManagerAddress"] == told[1]]

    def _name(self, node: str) -> str:
        """What people call a node."""
        if node and node not in self.names:
            self._alive()
        return self.names.get(node, "unknown")


Ask = tuple[tuple[str, float], ...]


def _ask(job: Job) -> Ask:
    """What a cell asks of a node, in Ray's words."""
    return ("CPU", job.cpus), ("GPU", job.gpus), ("memory", job.memory)


@contextmanager
def _connected(address: str | None, plugins: Sequence[str]) -> Iterator[Any]:
    """Ray, connected to a cluster: the one at the address, else one that is started here for this run.

    Ray itself would look for one that runs here, and wait for minutes for one that ran here once.
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
    _look_for(address)
    env = {"py_modules": modules} if (modules := _travelling_modules(plugins)) else None
    try:
        with _signals_as_they_were():
            ray.init(address=address, runtime_env=env, log_to_driver=False, logging_level=logging.CRITICAL)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: {last_line(error)}") from error
    # Ray prints what nodes complain of, from a thread and on standard output, where tables go.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _signals_as_they_were() -> Iterator[None]:
    """Ray takes SIGTERM for itself and exits at once, where a batch system means that cells shall keep their state.

    A Ray that is started here inherits that SIGHUP is blocked: a terminal that closes is for the driver to handle.
    """
    before = signal.getsignal(signal.SIGTERM)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
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
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
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
    data = str(Path(os.environ[ENVIRONMENT]).absolute()) if os.environ.get(ENVIRONMENT) else ""
    return Baggage(terms.suite, terms.device, terms.plugins, sources, data, __version__, commit())

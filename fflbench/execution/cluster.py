"""Cells on a Ray cluster (Moritz et al., Ray: a distributed framework for emerging AI applications, OSDI 2018).

Ray finds each cell a node with the processors, GPUs and memory that it asks for. Records and checkpoints come back to
the driver, which alone writes them, so no disk is shared. Plugins that are files travel as text, modules as Ray's
py_modules, and with them the place where data lies. A node that lacks something says what, and gets no such cell again.
"""

import functools
import importlib.util
import logging
import os
import platform
import socket
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fflbench import __version__, registry
from fflbench.data.prepared import is_here
from fflbench.errors import SuiteError
from fflbench.execution.cell import StoppedError, play
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
    Terms,
    failed,
    too_long,
)
from fflbench.measures import readable_bytes
from fflbench.records.record import Record
from fflbench.records.store import write_whole
from fflbench.registry import Kind
from fflbench.suites.plan import Cell
from fflbench.tasks import Task

DATA = "FFLBENCH_DATA"
TELL_SECONDS = 1.0
"""How often a cell tells of its rounds."""
LOOK_SECONDS = 2.0
"""How often the driver looks at the nodes."""
PATIENCE = 30.0
"""Seconds that a cell waits for a node that could hold it to join."""

STOPPED = "stopped"


@dataclass(frozen=True)
class Baggage:
    """What travels with every cell."""

    suite: str
    device: str
    plugins: tuple[str, ...]
    sources: tuple[tuple[str, str], ...]
    """The plugins that are files, with their text."""
    data: str
    """Where the driver's data lies."""
    version: str


@dataclass(frozen=True)
class Unfit:
    """A node's word that it cannot play a cell."""

    why: str


@dataclass
class _Try:
    """A cell on its way through the cluster."""

    job: Job
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
                f"the Ray cluster is gone: {_last_line(error)}; what is finished is kept, and the same command goes on"
            ) from error
        finally:
            for ref in driver.tries:
                ray.cancel(ref, force=True)


@dataclass
class _Driver:
    ray: Any
    jobs: Sequence[Job]
    terms: Terms
    workers: int | None
    retries: int
    waiting: deque[Job] = field(init=False)
    tries: dict[Any, _Try] = field(init=False, default_factory=dict)
    lost: dict[str, int] = field(init=False, default_factory=dict)
    """How many nodes were lost under a cell."""
    unfit: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """By task: which nodes cannot play it, and why."""
    told_to_stop: bool = field(init=False, default=False)
    looked: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.waiting = deque(self.jobs)
        self.by_id = {job.cell.id: job for job in self.jobs}
        self.baggage = self.ray.put(_baggage(self.terms))
        self.play = self.ray.remote(_play)
        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        self.desk = self.ray.remote(num_cpus=0)(Desk).options(scheduling_strategy=here).remote()
        self.nodes = self._alive()

    def step(self) -> Iterator[Event | None]:
        """Submit what may be submitted, wait a little, and tell what happened."""
        if self.terms.stopping.is_set() and not self.told_to_stop:
            self._stop()
        while self.waiting and len(self.tries) < (self.workers or len(self.jobs)):
            self._submit(self.waiting.popleft())
        over, _ = self.ray.wait(list(self.tries), timeout=TICK) if self.tries else ([], [])
        # What was told before the end comes before it.
        yield from self._news()
        for ref in over:
            yield from self._over(self.tries.pop(ref), ref)
        self._look()
        yield None

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
        ).remote(job.cell, self.baggage, kept, self.desk)
        self.tries[ref] = _Try(job)

    def _news(self) -> Iterator[Event]:
        """What cells have put on the desk."""
        by_cell = {each.job.cell.id: each for each in self.tries.values()}
        for cell, kind, said in self.ray.get(self.desk.read.remote()):
            attempt = by_cell.get(cell)
            if kind == "kept":
                try:
                    write_whole(self.terms.store.checkpoint(cell), said)
                except OSError as error:
                    yield Note(f"a cell's checkpoint could not be kept: {error.strerror}")
            elif attempt is None:
                continue
            elif kind == "started":
                attempt.node, attempt.since = said, time.monotonic()
                yield Started(attempt.job.cell, self._name(said))
            else:
                yield Progress(attempt.job.cell, *said)

    def _over(self, attempt: _Try, ref: Any) -> Iterator[Event]:
        """How an attempt ended."""
        errors = self.ray.exceptions
        job, node = attempt.job, self._name(attempt.node)
        try:
            said = self.ray.get(ref)
        except errors.TaskCancelledError:
            # One that had not begun when the run was stopped is simply not there any more.
            if attempt.given_up:
                yield attempt.given_up
        except (errors.NodeDiedError, errors.ObjectLostError):
            yield from self._lost(attempt)
        except errors.OutOfMemoryError:
            yield failed(job, self.terms, f"{LOST_FOR_MEMORY} (node {node})")
        except errors.WorkerCrashedError:
            self.nodes = self._alive()
            if attempt.node and attempt.node not in self.nodes:
                yield from self._lost(attempt)
            else:
                yield failed(job, self.terms, f"the worker died (node {node})")
        except errors.RayError as error:
            yield failed(job, self.terms, f"Ray could not run it (node {node}): {_last_line(error)}")
        else:
            yield from self._answered(attempt, said)

    def _answered(self, attempt: _Try, said: Record | Unfit | str) -> Iterator[Event]:
        job = attempt.job
        if isinstance(said, Record):
            yield Finished(job.cell, said)
        elif isinstance(said, Unfit):
            reasons = self.unfit.setdefault(_task_of(job.cell), {})
            if attempt.node not in reasons:
                yield Note(f"node {self._name(attempt.node)} gets no such cells: {said.why}")
            reasons[attempt.node] = said.why
            self.nodes = self._alive()
            if set(self.nodes) <= set(reasons):
                told = "; ".join(f"node {self._name(node)}: {why}" for node, why in reasons.items())
                yield failed(job, self.terms, f"no node can play it: {told}", ran=False)
            else:
                yield Returned(job.cell, "goes to another node")
                self.waiting.appendleft(job)
        else:
            yield Returned(job.cell, "stopped, and its state is kept")

    def _lost(self, attempt: _Try) -> Iterator[Event]:
        """A node is gone, and a cell with it: the cell is tried again, with what is kept of it."""
        job, node = attempt.job, self._name(attempt.node)
        times = self.lost[job.cell.id] = self.lost.get(job.cell.id, 0) + 1
        if times > self.retries:
            yield failed(job, self.terms, f"lost its node {times} times, the last was {node} (--retries)")
        else:
            yield Returned(job.cell, f"node {node} is gone; tried again, time {times} of {self.retries}")
            if not self.terms.stopping.is_set():
                self.waiting.appendleft(job)

    def _look(self) -> None:
        """Give up what takes too long, and what no node can hold."""
        now = time.monotonic()
        for ref, attempt in self.tries.items():
            if attempt.given_up is None and attempt.since is not None and now - attempt.since > self.terms.timeout:
                self._give_up(ref, attempt, too_long(attempt.job, self.terms))
        if now - self.looked < LOOK_SECONDS:
            return
        self.looked, self.nodes = now, self._alive()
        for ref, attempt in self.tries.items():
            if attempt.since is not None or attempt.given_up or self._room(attempt.job):
                attempt.homeless = None
            elif attempt.homeless is None:
                attempt.homeless = now
            elif now - attempt.homeless > PATIENCE:
                job = attempt.job
                asks = f"{job.cpus:g} processors, {job.gpus:g} GPUs and {readable_bytes(job.memory)} of memory"
                self._give_up(ref, attempt, failed(job, self.terms, f"no node of the cluster has {asks}", ran=False))

    def _give_up(self, ref: Any, attempt: _Try, why: Finished) -> None:
        attempt.given_up = why
        self.ray.cancel(ref, force=True)

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
        """Start nothing new, and let what is under way keep its state."""
        self.told_to_stop = True
        self.waiting.clear()
        self.ray.get(self.desk.stop.remote())
        for ref, attempt in self.tries.items():
            if attempt.since is None:
                self.ray.cancel(ref)

    def _alive(self) -> dict[str, Mapping[str, Any]]:
        return {node["NodeID"]: node for node in self.ray.nodes() if node["Alive"]}

    def _name(self, node: str) -> str:
        """What people call a node."""
        known = {each["NodeID"]: each for each in self.ray.nodes()}
        return str(known[node]["NodeName"]) if node in known else "unknown"


class Desk:
    """Where cells put what they have to say, and hear whether to go on. It is the one thing both sides reach."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, Any]] = []
        self.stopping = False

    def put(self, cell: str, kind: str, said: Any) -> bool:
        """Take something; returns whether the cell is to stop."""
        self.said.append((cell, kind, said))
        return self.stopping

    def read(self) -> list[tuple[str, str, Any]]:
        """All that was put here since the last time."""
        said, self.said = self.said, []
        return said

    def stop(self) -> None:
        """From now on, cells are to stop."""
        self.stopping = True


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
        ray.init(address=address, runtime_env=env, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"--address {address}" if address else "--executor ray"
        raise SuiteError(f"{where}: no Ray cluster can be reached: {_last_line(error)}") from error
    try:
        # Ray prints what nodes complain of, from a thread and on standard output, where tables go.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            yield ray
    finally:
        ray.shutdown()


def _look_for(address: str) -> None:
    """Refuse an address where nobody listens; Ray itself would wait for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: {_last_line(error)}") from error


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
    data = str(Path(os.environ[DATA]).resolve()) if os.environ.get(DATA) else ""
    return Baggage(terms.suite, terms.device, terms.plugins, sources, data, __version__)


# On a node


def _play(cell: Cell, baggage: Baggage, kept: bytes | None, desk: Any) -> Record | Unfit | str:
    """What a node does with a cell."""
    import ray

    ray.get(desk.put.remote(cell.id, "started", ray.get_runtime_context().get_node_id()))
    if baggage.version != __version__:
        return Unfit(f"it has fflbench {__version__}, and the run is of {baggage.version}; install the same")
    if baggage.data and Path(baggage.data).is_dir():
        os.environ[DATA] = baggage.data
    if failure := _load(baggage):
        return Unfit(failure)
    task: Task = cell.create(Kind.TASK)
    if task.data_set and not is_here(task.data_set):
        name, folder = task.data_set.name, task.data_set.folder
        return Unfit(
            f"{task.data_set.title} is not in {folder} on {platform.node()} (fflbench data fetch {name} there)"
        )
    line = _Line(cell.id, desk, kept)
    try:
        return play(
            cell,
            baggage.suite,
            device=baggage.device,
            plugins=baggage.plugins,
            checkpoint=line,
            tell=line.tell,
            stopping=line.stopping,
        )
    except StoppedError:
        return STOPPED


@functools.cache
def _load(baggage: Baggage) -> str:
    """Have the plugins, once a process; what is wrong with them, if anything."""
    sources, names = dict(baggage.sources), []
    for name in baggage.plugins:
        if name in sources:
            # A folder of the process's own: nobody else can put code there.
            file = Path(tempfile.mkdtemp(prefix="fflbench-plugin-")) / Path(name).name
            file.write_text(sources[name], "utf-8")
            names.append(str(file))
        else:
            names.append(name)
    return "; ".join(map(str, registry.load_named(names)))


class _Line:
    """From a cell to the driver: its rounds and its checkpoints one way, whether to stop the other."""

    def __init__(self, cell: str, desk: Any, kept: bytes | None) -> None:
        self.cell, self.desk, self.kept = cell, desk, kept
        self.last, self.stop = time.monotonic(), False
        self.answer: Any = None

    def read(self) -> bytes:
        if self.kept is None:
            raise FileNotFoundError
        return self.kept

    def write(self, content: bytes) -> None:
        import ray

        ray.get(self.desk.put.remote(self.cell, "kept", content))

    def tell(self, told: Mapping[str, Any]) -> None:
        if time.monotonic() - self.last >= TELL_SECONDS:
            self.last = time.monotonic()
            self.answer = self.desk.put.remote(self.cell, "round", (told["round"], told["accuracy"]))

    def stopping(self) -> bool:
        import ray

        if self.answer is not None and ray.wait([self.answer], timeout=0)[0]:
            self.stop, self.answer = ray.get(self.answer), None
        return self.stop


def _task_of(cell: Cell) -> str:
    return str(cell.configuration["task"]["name"])


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]

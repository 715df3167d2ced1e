"""Many cases: dealt out to forked workers, watched for hangs and crashes, and counted."""

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.door import Door
from tests.fuzz.failure import Failure, failure_of_stack_dump
from tests.fuzz.worker import DUMP, Result, run_received_cases

SECONDS = 20.0
"""A case that takes longer hangs; of one that works and does not wait, these are seconds of a processor."""
PATIENCE = 5
"""How many times longer a case may work where the machine is busy with other things."""
IDLE = 2.0
"""Seconds without work after which a case waits."""
CASES = 400
"""After so many a worker makes room for a fresh one: what libraries keep adds up."""

Task = tuple[str, int]
"""A door's name and the number of one of its cases."""


@dataclass
class Tally:
    """Results of a campaign."""

    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By door, how often cases ended with which exit code, or failed."""
    work: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By door, seconds of a processor."""
    slowest: dict[str, Result] = field(default_factory=dict)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count a result."""
        self.outcomes[result.door][result.outcome] += 1
        self.work[result.door] += result.work
        if result.seconds >= self.slowest.get(result.door, result).seconds:
            self.slowest[result.door] = result
        if result.failure:
            self.failed.append(result)

    def groups(self) -> list[list[Result]]:
        """Failures that are alike, the most frequent first; in each the lowest case number first."""
        alike: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
        for result in sorted(self.failed, key=lambda result: result.number):
            assert result.failure
            alike[result.door, result.failure.kind, result.failure.place].append(result)
        return sorted(alike.values(), key=lambda group: (-len(group), group[0].door))


def distribute_cases(doors: Sequence[Door], cases: int) -> list[Task]:
    """Case numbers of every door, as many as its share and at least one, spread evenly over the campaign."""
    total = sum(door.share for door in doors)
    counts = {door.name: max(1, round(cases * door.share / total)) for door in doors}
    tasks = [(name, number) for name, count in counts.items() for number in range(count)]
    return sorted(tasks, key=lambda task: ((task[1] + 0.5) / counts[task[0]], task[0]))


def run_cases(
    doors: Sequence[Door],
    tasks: Sequence[Task],
    *,
    seed: int = 0,
    workers: int = 2,
    seconds: float = SECONDS,
    each: Callable[[Result], None] = lambda _: None,
) -> Tally:
    """Run cases in forked processes, and count their results."""
    for door in doors:
        if door.prepare:
            door.prepare()
    tally = Tally()
    # In memory where that is possible: fflbench waits for the disk after each file that it writes.
    memory = Path("/dev/shm")
    place = str(memory) if os.access(memory, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="fflbench-fuzz-", dir=place))
    by_name = {door.name: door for door in doors}
    crew = [_Worker(by_name, seed, root / f"worker-{number}") for number in range(min(workers, len(tasks)))]
    try:
        for result in _collect_results(crew, iter(tasks), seconds):
            tally.add(result)
            each(result)
    finally:
        for worker in crew:
            worker.end()
        shutil.rmtree(root, ignore_errors=True)
    return tally


class _Worker:
    """A worker process as its owner sees it."""

    def __init__(self, doors: dict[str, Door], seed: int, root: Path) -> None:
        self.doors, self.seed, self.root = doors, seed, root
        self.task: Task | None = None
        self.process: BaseProcess | None = None
        self.start()

    def start(self) -> None:
        self.cases = 0
        self.connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=run_received_cases, args=(theirs, self.doors, self.seed, self.root))
        self.process.start()
        theirs.close()
        # A group of its own, so that whatever a case starts can be ended with it.
        os.setpgid(self.process.pid or 0, 0)

    def assign(self, task: Task) -> None:
        if self.cases == CASES:
            self.restart()
        self.task, self.since, self.last_check, self.cpu_ticks = task, time.monotonic(), 0.0, -1.0
        self.cases += 1
        self.connection.send(task)

    def restart(self) -> None:
        self.end()
        self.start()

    def end(self) -> None:
        self.connection.close()
        if self.process:
            self._signal_group(signal.SIGKILL)
            self.process.join()

    def hangs(self, seconds: float) -> bool:
        """Whether its case has had its time, and either waits or has had several times as much."""
        now = time.monotonic()
        if now - self.since <= seconds or now - self.last_check < IDLE:
            return False
        before, self.cpu_ticks, self.last_check = self.cpu_ticks, self._cpu_ticks_of_group(), now
        return self.cpu_ticks == before or now - self.since > PATIENCE * seconds

    def _cpu_ticks_of_group(self) -> float:
        """Work of the processor for it and the processes it started, in the kernel's units."""
        assert self.process
        found = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = file.read_text().rpartition(")")[2].split()
                found += int(fields[11]) + int(fields[12]) if int(fields[2]) == self.process.pid else 0
        return found

    def end_hung_case(self) -> Failure:
        """End a case that hangs, and say where it does."""
        self._signal_group(signal.SIGUSR1)
        time.sleep(0.3)
        dump = self._read_stack_dump()
        self.restart()
        return failure_of_stack_dump("hang", dump)

    def crash_failure(self) -> Failure:
        """Failure of a process that has ended on its own."""
        assert self.process
        self.process.join(5)
        code = self.process.exitcode or 0
        dump = self._read_stack_dump()
        self.restart()
        return failure_of_stack_dump(
            f"crash ({signal.Signals(-code).name})" if code < 0 else f"process ends with {code}", dump
        )

    def _signal_group(self, number: signal.Signals) -> None:
        assert self.process
        assert self.process.pid
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _read_stack_dump(self) -> str:
        file = self.root.with_name(f"{self.root.name}.{DUMP}")
        return file.read_text("utf-8", "replace") if file.exists() else ""


def _collect_results(crew: Sequence[_Worker], tasks: Iterator[Task], seconds: float) -> Iterator[Result]:
    for worker in crew:
        if task := next(tasks, None):
            worker.assign(task)
    while busy := [worker for worker in crew if worker.task]:
        ready = wait([worker.connection for worker in busy], timeout=0.5)
        for worker in busy:
            assert worker.task
            name, number = worker.task
            result = None
            if worker.connection in ready:
                result = _receive_result(worker.connection) or Result(name, number, "failed", worker.crash_failure())
                if result.work > seconds and not result.failure:
                    slow = Failure("hang", "", f"it took {result.work:.0f} s of a processor")
                    result = replace(result, outcome="failed", failure=slow)
            elif worker.hangs(seconds):
                result = Result(name, number, "failed", worker.end_hung_case(), seconds)
            if result:
                worker.task = None
                yield result
                if task := next(tasks, None):
                    worker.assign(task)


def _receive_result(connection: Connection) -> Result | None:
    try:
        result: Result = connection.recv()
    except (EOFError, OSError):
        return None
    return result

"""A process that runs cases, one after the other, with limits on memory and without lasting effects on itself."""

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.case import Case
from tests.fuzz.door import Door
from tests.fuzz.failure import FailedError, Failure, failure_of_exception
from tests.fuzz.world import Watchdog, World

MEMORY = 3 * 2**30
"""Bytes that a case may take beyond what is loaded."""
LARGEST_FILE = 2**30
PR_SET_PDEATHSIG = 1

DUMP = "dump"
"""File with the stack of a process that hung or crashed."""


@dataclass(frozen=True)
class Result:
    """Result of one case."""

    door: str
    number: int
    outcome: str
    """Exit code, or "failed"."""
    failure: Failure | None = None
    seconds: float = 0.0
    work: float = 0.0
    """Seconds of a processor, which tell more of a door where a machine is busy."""
    log: list[str] = field(default_factory=list)


def run_received_cases(connection: Connection, doors: Mapping[str, Door], seed: int, root: Path) -> None:
    """Run the cases that come through the connection, and send back their results."""
    # It ends with its owner, however that ends.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    world = World(root)
    _redirect_output_and_set_limits(world)
    dump = (root.parent / f"{root.name}.{DUMP}").open("w")
    faulthandler.enable(dump)
    faulthandler.register(signal.SIGUSR1, dump, all_threads=False)
    watchdog = Watchdog(world)
    state = _GlobalState(world)
    while True:
        try:
            name, number = connection.recv()
        except EOFError:
            os._exit(0)
        door = doors[name]
        if not door.isolated:
            connection.send(_run_case(door, seed, number, world, watchdog))
            state.restore()
            continue
        child = os.fork()
        if not child:
            connection.send(_run_case(door, seed, number, world, watchdog))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            # As if this process itself had ended so.
            os._exit(1) if status > 0 else os.kill(os.getpid(), -status)


def _run_case(door: Door, seed: int, number: int, world: World, watchdog: Watchdog) -> Result:
    world.empty()
    os.chdir(world.case)
    start, busy = time.perf_counter(), time.process_time()
    case = Case(door, seed, number, world, watchdog)
    failure, before = None, world.listing(["."])
    try:
        door.attempt(case)
        changed = world.changes(before, world.listing(["."]))
        case.require(not changed, "writes outside its folder", ", ".join(changed))
    except FailedError as error:
        failure = error.failure
    except BaseException as error:
        failure = failure_of_exception(error)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - busy
    if failure:
        world.build()
    outcome = "failed" if failure else str(case.outcome)
    return Result(door.name, number, outcome, failure, seconds, cpu_seconds, case.log)


def _redirect_output_and_set_limits(world: World) -> None:
    """Send output to files, and set limits."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(world.root.parent / f"{world.root.name}.{name}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    os.environ.update(world.environment())
    loaded = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (loaded + MEMORY, loaded + MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class _GlobalState:
    """Global state that commands change: each is meant to have a process to itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.environment = dict(os.environ)
        self.path = list(sys.path)
        self.modules = set(sys.modules)

    def restore(self) -> None:
        """Put it back."""
        if dict(os.environ) != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
        sys.path[:] = self.path
        for name in set(sys.modules) - self.modules:
            module_file = getattr(sys.modules[name], "__file__", None) or ""
            if module_file.startswith(str(self.world.root)):
                del sys.modules[name]
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close("all")

"""Processes of this machine that run functions and cells, forked from a server that has imported torch.

They end with the process that started them, the driver, however that ends.
"""

import math
import multiprocessing
import multiprocessing.forkserver as forkserver
import multiprocessing.resource_tracker as resource_tracker
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from fflbench.errors import FflbenchError, SuiteError, error_in_one_line
from fflbench.execution.jobs_and_events import TICK, Note

R = TypeVar("R")

DRIVER_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that only the driver handles: Ctrl-C, the end of a batch job, a terminal that was closed."""


class ProcessDiedError(Exception):
    """Process that died before it returned a result, or took too long."""


def start_fork_server() -> Any:
    """Start the server that processes are forked from and let it import torch; the earlier, the better.

    Processes are forks of it, since a fork of the driver could inherit a lock that another thread holds.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fflbench.federation.rounds"])
    # The server inherits these signals blocked, so that only the driver handles them; here they are pending until the
    # server has started. The resource tracker that the server would start unblocks them again, so it is started first.
    resource_tracker.ensure_running()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, DRIVER_SIGNALS)
    try:
        with _hide_main_script():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return context


def start_child_process(context: Any, function: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """Start a process that calls a function with a pipe and arguments; return it and the other end of the pipe."""
    pipe, theirs = context.Pipe()
    process = context.Process(target=function, args=(theirs, *arguments), daemon=True)
    with _hide_main_script():
        process.start()
    theirs.close()
    return process, pipe


@contextmanager
def _hide_main_script() -> Iterator[None]:
    """Hide the main script from new processes, which would import it and thereby run it again."""
    main: dict[str, Any] = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: main.pop(name) for name in ("__file__", "__spec__") if name in main}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update(hidden)


def call_in_child_process(
    function: Callable[..., R], *arguments: Any, plugins: Sequence[str] = (), timeout: float = math.inf
) -> R:
    """Call a function in a new process, where torch is already imported; return its result or raise its error."""
    process, pipe = start_child_process(
        start_fork_server(), _call_and_send_result, tuple(plugins), dict(os.environ), function, arguments
    )
    end = time.monotonic() + timeout
    try:
        while isinstance(message := _receive_until(pipe, end), Note):
            warnings.warn(message.text, stacklevel=2)
    except (EOFError, OSError):
        raise ProcessDiedError from None
    finally:
        process.kill()
        process.join()
        pipe.close()
    if isinstance(message, FflbenchError):
        raise message
    result: R = message
    return result


def _receive_until(pipe: Connection, end: float) -> Any:
    """Return the next message of a process, or raise `ProcessDiedError` at the time `end`."""
    # In ticks, since poll() takes no infinite timeout.
    while not pipe.poll(max(0.0, min(TICK, end - time.monotonic()))):
        if time.monotonic() >= end:
            raise ProcessDiedError
    return pipe.recv()


def _call_and_send_result(
    pipe: Connection,
    plugins: Sequence[str],
    environment: dict[str, str],
    function: Callable[..., object],
    arguments: Sequence[Any],
) -> None:
    failures = set_up_child_process(pipe, plugins, environment)
    receive_in_thread(pipe, lambda _: None)
    try:
        result = SuiteError(failures) if failures else function(*arguments)
    except FflbenchError as error:
        result = error
    except (Exception, SystemExit) as error:
        # An exception of a plugin's own class may not unpickle in the driver.
        result = FflbenchError(error_in_one_line(error))
    pipe.send(result)


def receive_in_thread(pipe: Connection, handle: Callable[[Any], None]) -> None:
    """Receive the driver's messages in a thread, and exit with the driver: without it no records are written."""

    def receive() -> None:
        try:
            while True:
                handle(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=receive, daemon=True).start()


def set_up_child_process(pipe: Connection, plugins: Sequence[str], environment: dict[str, str]) -> str:
    """Set up a new process; return the errors of plugins that could not be loaded, or an empty text."""
    for number in DRIVER_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    os.environ.update(environment)
    # The driver shows warnings, wherever they come from.
    warnings.showwarning = lambda message, *_, **__: pipe.send(Note(str(message)))
    from fflbench import registry

    return "; ".join(map(str, registry.load_named(plugins)))

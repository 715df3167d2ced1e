"""Connection of the driver to a Ray cluster."""

import importlib.util
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from fflbench.errors import SuiteError
from fflbench.execution.ray_node import last_line_of_error


@contextmanager
def connect_to_ray(address: str | None, plugins: Sequence[str]) -> Iterator[Any]:
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
    env = {"py_modules": modules} if (modules := _plugin_modules_to_upload(plugins)) else None
    try:
        with _keep_signal_handlers():
            ray.init(address=address, runtime_env=env, log_to_driver=False, logging_level=logging.CRITICAL)
    except (RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: {last_line_of_error(error)}") from error
    # From a thread, Ray prints the complaints of nodes to standard output, which is for tables.
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
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
    """Refuse an address without a port or where nothing listens; Ray itself would wait for minutes."""
    if address not in ("auto", "local") and not re.search(r":\d+$", address):
        raise SuiteError(f"--address {address}: give a machine and a port, as in 10.0.0.1:6379")
    place = address.rpartition("://")[2]
    if ":" in place and not is_server_listening(place):
        raise SuiteError(f"--address {address}: no Ray cluster can be reached: nothing answers there")


def is_server_listening(address: str) -> bool:
    """Return whether a server listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _plugin_modules_to_upload(plugins: Sequence[str]) -> list[str]:
    """Return the files or folders of plugins that are modules but not installed in site-packages."""
    paths = []
    for plugin in plugins:
        spec = None if plugin.endswith(".py") else importlib.util.find_spec(plugin.partition(".")[0])
        if spec and spec.origin and "site-packages" not in spec.origin:
            file = Path(spec.origin)
            paths.append(str(file.parent if file.name == "__init__.py" else file))
    return sorted(set(paths))

"""Robustness, privacy and cost of federated-learning defenses, measured on the same work."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fflbench.aggregation import aggregate
    from fflbench.execution.run import run
    from fflbench.records import load

__version__ = "0.1.0"

__all__ = ["__version__", "aggregate", "load", "run"]

_HOMES = {"aggregate": "fflbench.aggregation", "load": "fflbench.records", "run": "fflbench.execution.run"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `fflbench --help` needs none of it."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

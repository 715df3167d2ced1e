"""Robustness, privacy and cost of federated-learning defenses, measured on the same work."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fflbench.aggregation import aggregate
    from fflbench.execution.run_suite import run
    from fflbench.records import load

__version__ = "0.1.0"

__all__ = ["__version__", "aggregate", "load", "run"]

_MODULES = {"aggregate": "fflbench.aggregation", "load": "fflbench.records", "run": "fflbench.execution.run_suite"}


def __getattr__(name: str) -> Any:
    """Import a public function on first use, since `fflbench --help` needs none of them."""
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Robustness, privacy and cost of federated-learning defenses, measured on the same work."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fflbench.aggregation import Aggregator, aggregate
    from fflbench.execution.run_suite import run
    from fflbench.poisoned_updates import poison
    from fflbench.report.loaded_records import load

__version__ = "0.1.0"

__all__ = ["Aggregator", "__version__", "aggregate", "load", "poison", "run"]

_MODULES = {
    "Aggregator": "fflbench.aggregation",
    "aggregate": "fflbench.aggregation",
    "load": "fflbench.report.loaded_records",
    "poison": "fflbench.poisoned_updates",
    "run": "fflbench.execution.run_suite",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since `fflbench --help` needs none of them."""
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

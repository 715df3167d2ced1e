"""Robustness, privacy and cost of federated-learning defenses, measured on the same work."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fflbench.aggregation import aggregate

__version__ = "0.1.0"

__all__ = ["__version__", "aggregate"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `fflbench --help` needs none of it."""
    if name == "aggregate":
        from fflbench.aggregation import aggregate

        return aggregate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

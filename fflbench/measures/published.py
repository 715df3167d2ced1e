"""Figures that papers publish, shown beside measured ones; a plugin registers those of its paper when it is loaded."""

from collections.abc import Mapping
from typing import Any

_figures: dict[str, dict[Any, Any]] = {}


def register(table: str, figures: Mapping[Any, Any]) -> None:
    """Add figures to a table.

    The table "runtime" is by task, number of updates and defense, with the fields of its parts; "complexity" is by
    defense; "communication" is by task and defense, with the field `total`.
    """
    _figures.setdefault(table, {}).update(figures)


def of(table: str) -> Mapping[Any, Any]:
    """Return all figures of a table."""
    return _figures.get(table, {})

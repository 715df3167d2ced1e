"""Results published in papers, shown beside measured ones; plugins register those of their papers."""

from collections.abc import Mapping
from typing import Any

_tables: dict[str, dict[Any, Any]] = {}


def register(name: str, results: Mapping[Any, Any]) -> None:
    """Add published results to a table.

    The table "runtime" is by task, number of updates and defense, with the fields of its parts; "complexity" is by
    defense; "communication" is by task and defense, with the field `total`.
    """
    _tables.setdefault(name, {}).update(results)


def table(name: str) -> Mapping[Any, Any]:
    """Return all published results of a table."""
    return _tables.get(name, {})

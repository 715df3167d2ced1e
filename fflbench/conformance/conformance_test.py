"""Conformance checks as a test of pytest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fflbench import registry
from fflbench.conformance.check_registry import Check, applicable_checks
from fflbench.errors import FflbenchError
from fflbench.registry import Entry, Kind


def entries_of_file(file: Path) -> list[Entry]:
    """Load a plugin's file and return what it registers."""
    for failure in registry.load_named([str(file)]):
        raise FflbenchError(str(failure))
    return [entry for kind in Kind for entry in registry.entries(kind) if entry.file == file.resolve()]


def conformance_test(file: Path) -> Callable[..., Any]:
    """Return a test function, for a test module, that runs every check on every plugin of a file.

    `test_conformance = conformance_test(Path("my_rule.py"))` also registers the file's plugins for other tests.
    """
    import pytest

    cases = [(entry, check) for entry in entries_of_file(file) for check in applicable_checks(entry)]
    if not cases:
        raise FflbenchError(f"{file} registers no plugin")

    @pytest.mark.parametrize(("entry", "check"), cases, ids=[f"{entry.name}-{check.name}" for entry, check in cases])
    def test(entry: Entry, check: Check) -> None:
        check(entry)

    return test

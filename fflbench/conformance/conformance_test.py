"""Conformance checks as a test of pytest."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fflbench import registry
from fflbench.conformance.check_registry import Check, applicable_checks
from fflbench.errors import FflbenchError
from fflbench.registry import Entry


def conformance_test(file: Path) -> Callable[..., Any]:
    """Return a test function, for a test module, that runs every check on every plugin of a file.

    `test_conformance = conformance_test(Path("my_rule.py"))` also registers the file's plugins for other tests.
    """
    import pytest

    for failure in registry.load_named([str(file)]):
        raise FflbenchError(str(failure))
    cases = [(entry, check) for entry in registry.entries_of_file(file) for check in applicable_checks(entry)]
    if not cases:
        raise FflbenchError(f"{file} registers no plugin")

    @pytest.mark.parametrize(("entry", "check"), cases, ids=[f"{entry.name}-{check.name}" for entry, check in cases])
    def test(entry: Entry, check: Check) -> None:
        check(entry)

    return test

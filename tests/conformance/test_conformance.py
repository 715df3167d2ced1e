"""Every registered plugin of every kind meets the requirements of its kind."""

import pytest

from fflbench import registry
from fflbench.conformance import NotCheckedError, applicable_checks
from fflbench.registry import Kind

SLOW = "ray"
"""Executor that is not checked here, since a cluster takes seconds to start; tests/execution compares its records."""

CASES = [(entry, check) for kind in Kind for entry in registry.entries(kind) for check in applicable_checks(entry)]


@pytest.mark.parametrize(
    ("entry", "check"), CASES, ids=[f"{entry.kind}-{entry.name}-{check.name}" for entry, check in CASES]
)
def test_a_registered_plugin_conforms(entry, check):
    if (entry.kind, entry.name) == (Kind.EXECUTOR, SLOW):
        pytest.skip("a cluster takes seconds to start")
    try:
        check(entry)
    except NotCheckedError as absent:
        pytest.skip(str(absent))


def test_every_kind_of_plugin_has_checks():
    assert {entry.kind for entry, _ in CASES} == {kind for kind in Kind if registry.entries(kind)}

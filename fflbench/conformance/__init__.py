"""Conformance checks: requirements that every registered plugin meets, one small check each.

`applicable_checks(entry)` returns those that apply to a plugin. Calling one raises a `ConformanceError` whose text is
one sentence about the requirement that does not hold. All run on small data within a fraction of a second.
"""

from fflbench.conformance import (  # noqa: F401 (each module adds its checks)
    engines,
    executors,
    federations,
    measures,
    observations,
    poisoning_attacks,
    preaggregations,
    privacy_attacks,
    rules,
    suites,
    tasks,
    transports,
)
from fflbench.conformance.check_registry import Check, ConformanceError, NotCheckedError, applicable_checks
from fflbench.conformance.conformance_test import conformance_test

__all__ = ["Check", "ConformanceError", "NotCheckedError", "applicable_checks", "conformance_test"]

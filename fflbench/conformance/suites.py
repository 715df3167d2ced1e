"""Checks of suites."""

from fflbench.conformance.check_registry import register_check, require
from fflbench.registry import Entry, Kind
from fflbench.suites import suite
from fflbench.suites.plan import plan


@register_check(Kind.SUITE)
def check_planning(entry: Entry) -> None:
    """Check that the suite can be planned, and has at least one cell."""
    # Cells differ by their seeds in nothing that planning looks at.
    cells = plan(suite.read(str(entry.target), ["seeds=[0]"]))
    require(cells, entry, "has no cells")

"""Records: what a result is, and where it is kept."""

from fflbench.records.record import Record, Records
from fflbench.records.store import Store, load

__all__ = ["Record", "Records", "Store", "load"]

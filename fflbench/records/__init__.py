"""Records: results of cells, and the folders that hold them."""

from fflbench.records.record import Record, Records
from fflbench.records.store import Store, load

__all__ = ["Record", "Records", "Store", "load"]

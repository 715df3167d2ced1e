"""Records: results of cells, and the folders that hold them."""

from fflbench.records.record import Record
from fflbench.records.store import Store

__all__ = ["Record", "Store"]

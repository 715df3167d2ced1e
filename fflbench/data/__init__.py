"""Data: where it comes from, how it is checked and prepared, how it is divided among participants."""

from fflbench.data.examples import Data, Examples
from fflbench.data.partitions import partition

__all__ = ["Data", "Examples", "partition"]

"""Data sets: download, checks, preparation, and partition among participants."""

from fflbench.data.examples import Data, Examples
from fflbench.data.partitions import partition

__all__ = ["Data", "Examples", "partition"]

"""Peak memory of the server in a round, relative to the matrix of updates.

All arrays of a round count, from participants' updates to the change of the model, the matrix included.
"""

import os
import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.timing import Ratio
from fflbench import registry
from fflbench.arrays import kernels
from fflbench.federation import Columns, Setting, chain
from fflbench.types import Matrix

DEFENSES = ("fedavg", "median", "clipping + fedavg", "nnm + trimmed-mean", "ffl")
"""Defenses with their defaults: `ffl` in fast mode, as robustness runs it."""
UPDATES, D, LAST_LAYER = 100, 14_728_266, 5_130
MAX_MATRICES = 1.05
"""Largest peak, in multiples of the matrix: a second matrix may not fit into memory."""


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield the size of the matrix as a share of the peak, for every defense."""
    for name, peak in peak_bytes_by_defense(UPDATES, D).items():
        what, matrix = f"{name}, peak memory, {UPDATES} x {D:,}", 4 * UPDATES * D
        yield Ratio(
            what, "matrix of updates", matrix / 1e9, peak / 1e9, round(1 / MAX_MATRICES, 3), os.getloadavg()[0], "GB"
        )


def peak_bytes_by_defense(n: int, d: int) -> dict[str, int]:
    """Return the peak in bytes of a round of every defense, with n updates of d columns."""
    # Memory of modules and of the compiler is not counted.
    registry.load_installed()
    for name in DEFENSES:
        _peak_bytes_of_round(name, np.empty((n, kernels.COMPILED // n + 1), np.float32))
    tracemalloc.start()
    try:
        rows = np.empty((n, d), np.float32)
        return {name: _peak_bytes_of_round(name, rows) for name in DEFENSES}
    finally:
        tracemalloc.stop()


def _peak_bytes_of_round(name: str, rows: Matrix) -> int:
    n, d = rows.shape
    # Values do not matter, and random ones for all rows would take most of the time.
    np.random.default_rng(0).standard_normal(out=rows[0], dtype=np.float32)
    np.multiply(rows[0], np.linspace(0.5, 1.5, n - 1, dtype=np.float32)[:, None], out=rows[1:])
    last = slice(max(0, d - LAST_LAYER), d)
    defense = chain.defense(name)
    defense.begin(Setting(n, n, np.full(n, 100), Columns({}, {}, slice(0, d), last, d)), 0)
    model = np.zeros(d, np.float32)
    tracemalloc.reset_peak()
    defense.aggregate(defense.transmit(0, model, defense.select(0), rows))
    return tracemalloc.get_traced_memory()[1]

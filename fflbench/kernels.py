"""Fast array work that rules share. Nothing here loops over coordinates or makes a second matrix."""

import functools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from fflbench.types import Matrix, Vector

BLOCK = 1 << 17
"""Values in a block of columns: half a megabyte of float32, which stays in a core's second-level cache."""

_threads: ContextVar[int] = ContextVar("threads", default=os.cpu_count() or 1)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let kernels and numpy's BLAS use so many threads; inside a cell it is one, since cells run side by side."""
    token = _threads.set(count)
    try:
        with _controller().limit(limits=count):
            yield
    finally:
        _threads.reset(token)


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def over_sorted_columns(updates: Matrix, reduce: Callable[[Matrix], Vector]) -> Vector:
    """Sort every column and reduce it to one value, block by block.

    `reduce` is handed a block with the participants' values of each coordinate in ascending order along axis 0.
    """
    n, d = updates.shape
    result = np.empty(d, updates.dtype)

    def work(start: int) -> None:
        block = updates[:, start : start + width].T.copy()
        block.sort(axis=1)
        result[start : start + width] = reduce(block.T)

    width = max(1, BLOCK // n)
    _spread(work, range(0, d, width))
    return result


def weighted_mean(updates: Matrix, weights: npt.ArrayLike) -> Vector:
    """The mean of the rows by weight."""
    shares = np.asarray(weights, np.float64)
    mean: Vector = (shares / shares.sum()).astype(updates.dtype) @ updates
    return mean


def row_norms(updates: Matrix) -> npt.NDArray[np.float64]:
    """The Euclidean length of every row."""
    with np.errstate(over="ignore"):
        squares = np.array([np.dot(row, row) for row in updates], np.float64)
    for row in np.flatnonzero(~np.isfinite(squares)):
        squares[row] = gram(updates[[row]])[0, 0]
    lengths: npt.NDArray[np.float64] = np.sqrt(squares)
    return lengths


def gram(updates: npt.NDArray[np.float32 | np.float64]) -> npt.NDArray[np.float64]:
    """All inner products of rows, summed in double precision so that close rows and huge ones keep their distances."""
    n, d = updates.shape
    width = max(1, BLOCK // n)
    total = np.zeros((n, n))
    for start in range(0, d, width):
        block = updates[:, start : start + width].astype(np.float64, copy=False)
        total += block @ block.T
    return total


def squared_distances(updates: Matrix) -> npt.NDArray[np.float64]:
    """Squared Euclidean distances between all rows."""
    products = gram(updates)
    norms = products.diagonal()
    distances = np.maximum(norms[:, None] + norms[None, :] - 2 * products, 0)
    np.fill_diagonal(distances, 0)
    return distances


def _spread(work: Callable[[int], None], blocks: range) -> None:
    count = min(_threads.get(), len(blocks))
    if count <= 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(count) as pool:
        # Numpy lets go of the interpreter while it copies and sorts.
        for _ in pool.map(work, blocks):
            pass

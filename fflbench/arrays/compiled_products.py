"""Inner products and distances of rows of large matrices, compiled: one pass, in double precision from the start."""

import functools
from collections.abc import Callable

import numba
import numpy as np
import numpy.typing as npt

from fflbench.arrays.compilation import compile_function

TILE = 128
"""Columns that are multiplied at a time: those of a few dozen rows fit into the cache in double precision."""

Products = Callable[[npt.NDArray[np.float32], npt.NDArray[np.float64]], None]
"""Add the inner products of rows to those in the second argument, on and below its diagonal.

Its number of rows is rounded up to a multiple of four.
"""


Squares = Callable[[npt.NDArray[np.float32], int, npt.NDArray[np.float64], npt.NDArray[np.float64]], None]
"""Write the squared distances of rows, from the given column on, from the third argument to the fourth."""


@functools.cache
def compiled_squares() -> Squares | None:
    """Return compiled code for distances from a centre, or None where it cannot be compiled."""
    signature = (
        numba.types.Array(numba.float32, 2, "C"),
        numba.int64,
        numba.types.Array(numba.float64, 1, "C"),
        numba.types.Array(numba.float64, 1, "C"),
    )
    run: Squares | None = compile_function(_squared_distances, signature, fastmath={"reassoc", "contract"})
    return run


def _squared_distances(
    updates: npt.NDArray[np.float32], start: int, centre: npt.NDArray[np.float64], squares: npt.NDArray[np.float64]
) -> None:
    for row in range(len(updates)):
        values, total = updates[row, start : start + len(centre)], 0.0
        for column in range(len(centre)):
            total += (values[column] - centre[column]) ** 2
        squares[row] = total


@functools.cache
def compiled_products() -> Products | None:
    """Return compiled code for inner products, or None where it cannot be compiled."""
    signature = (numba.types.Array(numba.float32, 2, "A"), numba.types.Array(numba.float64, 2, "C"))
    # Sums of a tile may be taken in any order, so that vector registers can be used.
    run: Products | None = compile_function(_add_products, signature, fastmath={"reassoc", "contract"})
    return run


def _add_products(updates: npt.NDArray[np.float32], products: npt.NDArray[np.float64]) -> None:
    tile = np.zeros((len(products), TILE))
    for start in range(0, updates.shape[1], TILE):
        width = min(TILE, updates.shape[1] - start)
        for row in range(len(updates)):
            tile[row, :width] = updates[row, start : start + width]
        tile[:, width:] = 0
        # Four rows by four: each value is used four times once it is in a register.
        for i in range(0, len(products), 4):
            a, b, c, d = tile[i], tile[i + 1], tile[i + 2], tile[i + 3]
            for j in range(0, i + 1, 4):
                p, q, r, s = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
                ap = aq = ar = as_ = bp = bq = br = bs = cp = cq = cr = cs = dp = dq = dr = ds = 0.0
                for k in range(TILE):
                    ap += a[k] * p[k]
                    aq += a[k] * q[k]
                    ar += a[k] * r[k]
                    as_ += a[k] * s[k]
                    bp += b[k] * p[k]
                    bq += b[k] * q[k]
                    br += b[k] * r[k]
                    bs += b[k] * s[k]
                    cp += c[k] * p[k]
                    cq += c[k] * q[k]
                    cr += c[k] * r[k]
                    cs += c[k] * s[k]
                    dp += d[k] * p[k]
                    dq += d[k] * q[k]
                    dr += d[k] * r[k]
                    ds += d[k] * s[k]
                sums = ((ap, aq, ar, as_), (bp, bq, br, bs), (cp, cq, cr, cs), (dp, dq, dr, ds))
                for one in range(4):
                    for other in range(4):
                        products[i + one, j + other] += sums[one][other]

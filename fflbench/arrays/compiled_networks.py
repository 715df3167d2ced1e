"""Sorting networks compiled to machine code, for large matrices: one pass over the matrix, at the speed of memory.

Every comparator is a minimum and a maximum of two vector registers, each of which holds several columns of one row.
"""

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from fflbench.arrays.compilation import compile_function
from fflbench.arrays.sorting_networks import needed_comparators

ROWS = 128
"""Most rows that a network is compiled for, which takes longer the more there are."""

TILE = 256
"""Columns that are sorted at a time: those of a few dozen rows fit into the first-level cache."""

CHAINS = 4
"""Sums that are taken side by side, since each addition waits for the one before."""

FUSED = ("contract",)
"""A product and a sum may be one instruction."""

LANES = 16
"""Columns in a vector register; on processors with smaller ones the compiler uses several."""

Selection = Callable[[npt.NDArray[np.float32], int, npt.NDArray[np.float32]], bool]
"""Select ranks of as many columns as the third argument has, from the given one on, and write them there.

It returns whether all values of these columns are finite, which it finds on the way.
"""


@functools.cache
def compiled_selection(n: int, first: int, last: int, *, ordered: bool) -> Selection | None:
    """Return compiled code that selects ranks `first` to `last` - 1 of n rows, or None where it cannot be compiled.

    It writes them to an array that holds one column after the other where they are `ordered`, else one row.
    """
    if n > ROWS:
        return None
    updates, ranked = (numba.types.Array(numba.float32, 2, layout) for layout in ("C", "F" if ordered else "C"))
    # Code on disk is that of the same list of comparators, which numba does not see.
    edition = zlib.crc32(repr(needed_comparators(n, first, last, ordered=ordered)).encode())
    network = (n, first, last, ordered, edition)
    signature = (updates, numba.int64, ranked, *(numba.types.literal(value) for value in network))
    run = compile_function(_select_ranks, signature)
    return run and (lambda updates, start, ranked: run(updates, start, ranked, *network))


def _select_ranks(
    updates: npt.NDArray[np.float32],
    start: int,
    ranked: npt.NDArray[np.float32],
    n: int,
    first: int,
    last: int,
    ordered: bool,
    edition: int,
) -> bool:
    tile, all_finite = np.zeros(n * TILE, np.float32), True
    for begin in range(0, ranked.shape[1], TILE):
        width = min(TILE, ranked.shape[1] - begin)
        # Copied row by row, which memory is faster at than at reading many rows at once.
        for row in range(n):
            source = updates[row, start + begin : start + begin + width]
            for column in range(width):
                tile[row * TILE + column] = source[column]
        all_finite &= _run_network(tile, updates, start + begin + TILE, n, first, last, ordered)
        for rank in range(first, last):
            target = ranked[rank - first, begin : begin + width]
            for column in range(width):
                target[column] = tile[rank * TILE + column]
    return all_finite


def _network(typing: Any, tile: Any, updates: Any, ahead: Any, n: Any, first: Any, last: Any, ordered: Any) -> Any:
    """Define a network as instructions of LLVM, which also fetch columns from `ahead` on into the cache.

    It returns whether all values are finite: zero times any other is NaN, and so is every sum with it.
    """
    rows, ranks = n.literal_value, (first.literal_value, last.literal_value)

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        values, matrix = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip((tile, updates), arguments, strict=False)
        )
        length = builder.extract_value(matrix.shape, 1)
        start, stop, step = (context.get_constant(numba.intp, value) for value in (0, TILE, LANES))
        vector = ir.VectorType(ir.FloatType(), LANES)
        zeros = ir.Constant(vector, [0.0] * LANES)
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(CHAINS)]
        with cgutils.for_range_slice(builder, start, stop, step, inc=True) as (column, _):
            soon, places = builder.add(arguments[2], column), []
            for row in range(rows):
                _prefetch(builder, builder.gep(matrix.data, [soon]))
                soon = builder.add(soon, length)
                place = builder.gep(values.data, [builder.add(column, context.get_constant(numba.intp, row * TILE))])
                places.append(builder.bitcast(place, vector.as_pointer()))
            wires = [builder.load(place, align=4) for place in places]
            for chain, place in enumerate(sums):
                total = builder.load(place)
                for wire in wires[chain::CHAINS]:
                    total = builder.fadd(total, builder.fmul(wire, zeros, flags=FUSED), flags=FUSED)
                builder.store(total, place)
            for pair, outputs in needed_comparators(rows, *ranks, ordered=ordered.literal_value):
                one, other = (wires[wire] for wire in pair)
                for wire, take in outputs:
                    taken = builder.fcmp_ordered("<" if take is np.minimum else ">", one, other)
                    wires[wire] = builder.select(taken, one, other)
            for rank in range(*ranks):
                builder.store(wires[rank], places[rank], align=4)
        total = functools.reduce(builder.fadd, [builder.load(place) for place in sums])
        mask = builder.bitcast(builder.fcmp_unordered("uno", total, total), ir.IntType(LANES))
        return builder.icmp_unsigned("==", mask, ir.Constant(ir.IntType(LANES), 0))

    return numba.boolean(tile, updates, ahead, n, first, last, ordered), emit


def _prefetch(builder: ir.IRBuilder, place: Any) -> None:
    """Fetch a value into the cache; beyond the end of a matrix this does nothing."""
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag]), "llvm.prefetch.p0i8"
    )
    # To read, into all caches, as data.
    builder.call(function, [builder.bitcast(place, byte), flag(0), flag(3), flag(1)])


_run_network = intrinsic(prefer_literal=True)(_network)

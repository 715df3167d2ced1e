"""Convolutions of small networks, compiled to machine code.

The last axis of every array holds `LANES` examples, which fill a vector register: a weight is multiplied with all of
them at once, and sums stay in registers until they are complete. Libraries put channels there, of which small networks
have too few to fill one.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import binding, ir
from numba.core import cgutils
from numba.extending import intrinsic

from fflbench.arrays.compilation import compile_function

LANES = 16
"""Examples in a vector register; on processors with smaller ones the compiler uses several."""

FORWARD, BACKWARD = 0, 1

FUSED = ("contract",)
"""A product and a sum may be one instruction."""

Values: TypeAlias = npt.NDArray[np.float32]
Offsets: TypeAlias = npt.NDArray[np.int64]
Choices: TypeAlias = npt.NDArray[np.int32]

FLOATS, OFFSETS = numba.types.Array(numba.float32, 1, "C"), numba.types.Array(numba.int64, 1, "C")
CHOICES = numba.types.Array(numba.int32, 1, "C")
VECTOR, PLACES = (ir.VectorType(kind, LANES) for kind in (ir.FloatType(), ir.IntType(32)))

Products = Callable[[Values, Values, Values, Values, Offsets, Offsets, Offsets], None]
"""Write outputs, from inputs, weights, bias and three lists.

Output pixel i is a sum over entries `starts[i]` to `starts[i + 1]` of the other two, which are positions of input
pixels and of the weights that these are multiplied with.
"""

WeightGradients = Callable[[Values, Values, Values, Offsets, Offsets, Offsets, Offsets], None]
"""Add to the gradients of weights, from those of outputs, inputs and four lists.

Weights from `targets[i]` on are sums over entries `starts[i]` to `starts[i + 1]` of the other two, which are positions
of output and input pixels: one weight for every output channel and every column.
"""

Pooling = Callable[[Values, Values, Choices], None]
"""Between values, largest values of squares, and the places of the largest in their squares."""


def compiled_products(channels: int, pixels: int, outputs: int, output_pixels: int) -> Products | None:
    """Return compiled code for sums of products of pixels with weights, or None where it cannot be compiled.

    Weights have the axes place of the kernel, input channel, output channel.
    """
    shape = channels, pixels * LANES, outputs, output_pixels * LANES
    blocks = list(_blocks(outputs, _vector_registers() * 3 // 4))
    types = (*[FLOATS] * 4, *[OFFSETS] * 3, numba.int64)
    runs = [(first, _compiled(_products, types, (*shape, size))) for first, size in blocks]

    def run(*arrays: Any) -> None:
        for first, compiled in runs:
            compiled(*arrays, first)

    return run if all(compiled for _, compiled in runs) else None


def compiled_weight_gradients(
    outputs: int, output_pixels: int, weights: int, columns: int, column_step: int, column_weights: int
) -> WeightGradients | None:
    """Return compiled code for gradients of weights, or None where it cannot be compiled.

    `weights` is their number for an output channel; columns are `column_step` values apart in the inputs, and
    `column_weights` weights.
    """
    # More rows at a time would evict each other from the cache, whose places repeat every few kilobytes.
    rows, across = list(_blocks(outputs, 5)), list(_blocks(columns, _vector_registers() // 8))
    types = (*[FLOATS] * 3, *[OFFSETS] * 4, numba.int64, numba.int64)
    constants = output_pixels * LANES, weights, column_step, column_weights
    runs = [
        (row, column, _compiled(_weight_gradients, types, (*constants, height, width)))
        for row, height in rows
        for column, width in across
    ]

    def run(*arrays: Any) -> None:
        for row, column, compiled in runs:
            compiled(*arrays, row, column)

    return run if all(compiled for *_, compiled in runs) else None


def compiled_pooling(side: int, height: int, width: int) -> tuple[Pooling, Pooling] | None:
    """Return compiled code for the largest values of squares, and for their gradients, or None likewise.

    Squares do not overlap, and pixels beyond the last square belong to none; their gradients are not written.
    """
    both = [
        _compiled(_over_squares, (FLOATS, FLOATS, CHOICES), (side, height, width, direction))
        for direction in (FORWARD, BACKWARD)
    ]
    return (both[0], both[1]) if all(both) else None


def compiled_mask() -> Callable[[Values, Values, Values], None] | None:
    """Return compiled code that writes the second argument to the first, zero where the third is not positive."""
    run: Callable[[Values, Values, Values], None] | None = _compiled(_mask, (FLOATS,) * 3, ())
    return run


def _blocks(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield begins and sizes of as few blocks of at most `most` as there can be; sizes differ by one at most."""
    number = -(-count // most)
    for block in range(number):
        begin, end = count * block // number, count * (block + 1) // number
        yield begin, end - begin


@functools.cache
def _vector_registers() -> int:
    """Return how many vectors the processor's registers hold."""
    return 32 if binding.get_host_cpu_features().get("avx512f") else 8


@functools.cache
def _compiled(function: Callable[..., None], types: tuple[Any, ...], constants: tuple[int, ...]) -> Any:
    run = compile_function(function, (*types, *map(numba.types.literal, constants)))
    return run and (lambda *arguments: run(*arguments, *constants))


def _products(
    output: Values,
    inputs: Values,
    weights: Values,
    bias: Values,
    starts: Offsets,
    pixels: Offsets,
    places: Offsets,
    first: int,
    channels: int,
    plane: int,
    outputs: int,
    output_plane: int,
    size: int,
) -> None:
    """Write `size` output channels, from the `first` on."""
    for pixel in range(len(starts) - 1):
        _sum_of_products(
            output,
            first * output_plane + pixel * LANES,
            inputs,
            weights,
            bias,
            first,
            pixels,
            places,
            starts[pixel],
            starts[pixel + 1],
            channels,
            plane,
            outputs,
            output_plane,
            size,
        )


def _weight_gradients(
    gradients: Values,
    by_output: Values,
    inputs: Values,
    starts: Offsets,
    output_pixels: Offsets,
    pixels: Offsets,
    targets: Offsets,
    first: int,
    first_column: int,
    output_plane: int,
    weights: int,
    column_step: int,
    column_weights: int,
    height: int,
    width: int,
) -> None:
    """Add to the gradients of `height` output channels and `width` columns, from the first ones on."""
    for group in range(len(targets)):
        _inner_products(
            gradients,
            targets[group] + first * weights + first_column * column_weights,
            by_output,
            first * output_plane,
            inputs,
            first_column * column_step,
            output_pixels,
            pixels,
            starts[group],
            starts[group + 1],
            output_plane,
            weights,
            column_step,
            column_weights,
            height,
            width,
        )


def _mask(masked: Values, values: Values, mask: Values) -> None:
    for place in range(len(masked)):
        masked[place] = np.float32(0) if mask[place] <= 0 else values[place]


def _over_squares(
    values: Values, largest: Values, chosen: Choices, side: int, height: int, width: int, direction: int
) -> None:
    rows, columns = height // side, width // side
    for channel in range(len(largest) // (rows * columns * LANES)):
        for row in range(rows):
            for column in range(columns):
                square = (channel * rows + row) * columns + column
                corner = (channel * height + row * side) * width + column * side
                _square(values, corner * LANES, largest, chosen, square * LANES, side, width, direction)


class _Emitter:
    """Instructions of LLVM on arrays of single-precision numbers, whose positions are constants wherever possible."""

    def __init__(self, context: Any, builder: ir.IRBuilder, types: Any, arguments: Any) -> None:
        self.context, self.builder = context, builder
        self.arguments = [
            context.make_array(kind)(context, builder, value).data if isinstance(kind, numba.types.Array) else value
            for kind, value in zip(types, arguments, strict=True)
        ]

    def position(self, number: int) -> Any:
        return self.context.get_constant(numba.intp, number)

    def at(self, array: Any, *offsets: Any) -> Any:
        """Return the pointer to a value."""
        for offset in offsets:
            array = self.builder.gep(array, [self.position(offset) if isinstance(offset, int) else offset])
        return array

    def load(self, pointer: Any, kind: ir.VectorType = VECTOR) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, kind.as_pointer()), align=4)

    def store(self, vector: Any, pointer: Any) -> None:
        self.builder.store(vector, self.builder.bitcast(pointer, vector.type.as_pointer()), align=4)

    def broadcast(self, pointer: Any) -> Any:
        """Return a vector of one value."""
        lane = ir.IntType(32)
        vector = self.builder.insert_element(ir.Constant(VECTOR, ir.Undefined), self.builder.load(pointer), lane(0))
        zeros = ir.Constant(ir.VectorType(lane, LANES), [0] * LANES)
        return self.builder.shuffle_vector(vector, vector, zeros)

    def add_product(self, total: Any, one: Any, other: Any) -> None:
        """Add the product of two vectors to a variable."""
        product = self.builder.fmul(one, other, flags=FUSED)
        self.builder.store(self.builder.fadd(self.builder.load(total), product, flags=FUSED), total)

    def sum_of_lanes(self, vector: Any) -> Any:
        """Return the sum of a vector's values, halves added to each other."""
        lane, width = ir.IntType(32), LANES
        while width > 1:
            width //= 2
            halves = [
                self.builder.shuffle_vector(
                    vector, vector, ir.Constant(ir.VectorType(lane, width), list(range(begin, begin + width)))
                )
                for begin in (0, width)
            ]
            vector = self.builder.fadd(*halves)
        return self.builder.extract_element(vector, lane(0))


def _sum_of_products_code(
    typing: Any, output: Any, target: Any, inputs: Any, weights: Any, bias: Any, first: Any, pixels: Any, places: Any,
    begin: Any, end: Any, channels: Any, plane: Any, outputs: Any, output_plane: Any, size: Any,
) -> Any:  # fmt: skip
    """Define one output pixel of `size` channels as instructions of LLVM: each has a register for its sum."""
    types = (
        output, target, inputs, weights, bias, first, pixels, places, begin, end,
        channels, plane, outputs, output_plane, size,
    )  # fmt: skip
    depth, stride, width, output_stride, count = (kind.literal_value for kind in types[-5:])

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = _Emitter(context, builder, types, arguments)
        output, target, inputs, weights, bias, first, pixels, places, begin, end, *_ = code.arguments
        sums = [cgutils.alloca_once(builder, VECTOR) for _ in range(count)]
        for each, total in enumerate(sums):
            builder.store(code.broadcast(code.at(bias, first, each)), total)
        with cgutils.for_range_slice(builder, begin, end, code.position(1), inc=True) as (entry, _):
            pixel = code.at(inputs, builder.load(code.at(pixels, entry)))
            weight = code.at(weights, builder.load(code.at(places, entry)), first)
            with cgutils.for_range(builder, code.position(depth)) as loop:
                values = code.load(code.at(pixel, builder.mul(loop.index, code.position(stride))))
                row = code.at(weight, builder.mul(loop.index, code.position(width)))
                for each, total in enumerate(sums):
                    code.add_product(total, values, code.broadcast(code.at(row, each)))
        for each, total in enumerate(sums):
            code.store(builder.load(total), code.at(output, target, each * output_stride))
        return context.get_dummy_value()

    return numba.void(*types), emit


def _inner_products_code(
    typing: Any, gradients: Any, target: Any, by_output: Any, first: Any, inputs: Any, first_input: Any,
    output_pixels: Any, pixels: Any, begin: Any, end: Any, output_plane: Any, weights: Any, column_step: Any,
    column_weights: Any, height: Any, width: Any,
) -> Any:  # fmt: skip
    """Define one weight of each output channel and column likewise."""
    types = (
        gradients, target, by_output, first, inputs, first_input, output_pixels, pixels, begin, end,
        output_plane, weights, column_step, column_weights, height, width,
    )  # fmt: skip
    output_stride, row_weights, stride, skipped, rows, columns = (kind.literal_value for kind in types[-6:])

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = _Emitter(context, builder, types, arguments)
        gradients, target, by_output, first, inputs, first_input, output_pixels, pixels, begin, end, *_ = code.arguments
        sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(columns)] for _ in range(rows)]
        for total in itertools.chain(*sums):
            builder.store(ir.Constant(VECTOR, [0.0] * LANES), total)
        outer, inner = code.at(by_output, first), code.at(inputs, first_input)
        with cgutils.for_range_slice(builder, begin, end, code.position(1), inc=True) as (entry, _):
            output_pixel = code.at(outer, builder.load(code.at(output_pixels, entry)))
            pixel = code.at(inner, builder.load(code.at(pixels, entry)))
            values = [code.load(code.at(pixel, column * stride)) for column in range(columns)]
            for row, totals in enumerate(sums):
                slope = code.load(code.at(output_pixel, row * output_stride))
                for value, total in zip(values, totals, strict=True):
                    code.add_product(total, slope, value)
        for row, totals in enumerate(sums):
            for column, total in enumerate(totals):
                weight = code.at(gradients, target, row * row_weights + column * skipped)
                builder.store(builder.fadd(builder.load(weight), code.sum_of_lanes(builder.load(total))), weight)
        return context.get_dummy_value()

    return numba.void(*types), emit


def _square_code(
    typing: Any, values: Any, corner: Any, largest: Any, chosen: Any, square: Any, side: Any, width: Any, direction: Any
) -> Any:
    """Define the largest value of a square and its place, the first of equal ones, or the gradients of all its values.

    A value that is not a number counts as the largest.
    """
    types = (values, corner, largest, chosen, square, side, width, direction)
    length, stride, way = (kind.literal_value for kind in types[-3:])

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        code = _Emitter(context, builder, types, arguments)
        values, corner, largest, chosen, square, *_ = code.arguments
        places = range(length * length)
        pointers = [code.at(values, corner, (place // length * stride + place % length) * LANES) for place in places]
        numbers = [ir.Constant(PLACES, [place] * LANES) for place in places]
        if way == FORWARD:
            best, which = code.load(pointers[0]), numbers[0]
            for pointer, number in zip(pointers[1:], numbers[1:], strict=True):
                value = code.load(pointer)
                larger = builder.fcmp_ordered(">", value, best)
                larger = builder.or_(larger, builder.fcmp_unordered("uno", value, value))
                best, which = builder.select(larger, value, best), builder.select(larger, number, which)
            code.store(best, code.at(largest, square))
            code.store(which, code.at(chosen, square))
        else:
            slope, which = code.load(code.at(largest, square)), code.load(code.at(chosen, square), PLACES)
            for pointer, number in zip(pointers, numbers, strict=True):
                here = builder.icmp_signed("==", which, number)
                code.store(builder.select(here, slope, ir.Constant(VECTOR, [0.0] * LANES)), pointer)
        return context.get_dummy_value()

    return numba.void(*types), emit


_sum_of_products, _inner_products, _square = (
    intrinsic(prefer_literal=True)(code) for code in (_sum_of_products_code, _inner_products_code, _square_code)
)

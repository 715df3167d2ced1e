"""Layers of the compiled engine, with forward and backward passes; the last axis of every array is the example."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from fflbench.arrays.compiled_convolutions import (
    Offsets,
    Values,
    compiled_mask,
    compiled_pooling,
    compiled_products,
    compiled_weight_gradients,
)
from fflbench.engines import layers
from fflbench.errors import ParameterError


class CompiledLayer:
    """A layer without weights; `backward` follows the `forward` of the same examples."""

    def __init__(self, module: nn.Module) -> None:
        self.module: Any = module

    @staticmethod
    def supports(module: Any) -> bool:
        """Return whether a module with these settings can be trained."""
        return True

    def bind(self, weights: Mapping[str, Values], gradients: Mapping[str, Values]) -> None:
        """Set the weights, and the arrays that gradients are added to."""

    def weights_changed(self) -> None:
        """Take note of weights that were changed in place."""

    def forward(self, h: Values) -> Values:
        """Return the outputs; h is the input's shape x examples."""
        return h

    def backward(self, g: Values, *, first: bool) -> Values:
        """Return the gradient by inputs from that by outputs; its value does not matter where `first`."""
        return g


class CompiledFlatten(CompiledLayer):
    """All axes but the examples flattened into one."""

    supports = staticmethod(layers.Flatten.supports)

    def forward(self, h: Values) -> Values:
        self.shape = h.shape
        return h.reshape(-1, h.shape[-1])

    def backward(self, g: Values, *, first: bool) -> Values:
        return g.reshape(self.shape)


class CompiledReLU(CompiledLayer):
    """Rectified linear unit; NaN stays."""

    def forward(self, h: Values) -> Values:
        self.outputs = np.maximum(h, np.float32(0))
        return self.outputs

    def backward(self, g: Values, *, first: bool) -> Values:
        gradient = np.empty(g.shape, np.float32)
        _required(compiled_mask())(gradient.ravel(), np.ascontiguousarray(g).ravel(), self.outputs.ravel())
        return gradient


class CompiledMaxPool2d(CompiledLayer):
    """Largest values of squares that do not overlap; NaN stays."""

    @staticmethod
    def supports(module: Any) -> bool:
        plain = not (module.padding or module.ceil_mode or module.return_indices) and module.dilation == 1
        return plain and isinstance(module.kernel_size, int) and module.kernel_size == module.stride

    def forward(self, h: Values) -> Values:
        side = self.module.kernel_size
        channels, height, width, lanes = self.shape = h.shape
        outputs = np.empty((channels, height // side, width // side, lanes), np.float32)
        self.chosen = np.empty(outputs.shape, np.int32)
        self.find_largest, self.spread = _required(compiled_pooling(side, height, width))
        self.find_largest(h.ravel(), outputs.ravel(), self.chosen.ravel())
        return outputs

    def backward(self, g: Values, *, first: bool) -> Values:
        gradient = np.zeros(self.shape, np.float32)
        self.spread(gradient.ravel(), g.ravel(), self.chosen.ravel())
        return gradient


class CompiledLearnedLayer(CompiledLayer):
    """A layer with a weight and optionally a bias."""

    def bind(self, weights: Mapping[str, Values], gradients: Mapping[str, Values]) -> None:
        self.weight, self.weight_gradient = weights["weight"], gradients["weight"]
        self.has_bias = "bias" in weights
        self.bias = weights["bias"] if self.has_bias else np.zeros(len(self.weight), np.float32)
        self.bias_gradient = gradients["bias"] if self.has_bias else np.empty_like(self.bias)

    def _add_to_bias_gradient(self, g: Values) -> None:
        if self.has_bias:
            self.bias_gradient += g.reshape(len(g), -1).sum(1)


class CompiledLinear(CompiledLearnedLayer):
    """Linear layer, as matrix products."""

    def forward(self, h: Values) -> Values:
        if h.ndim != 2:
            raise ParameterError('engine = "compiled" takes Linear on flat inputs only; use engine = "loop"')
        self.inputs = h
        outputs: Values = self.weight @ h
        outputs += self.bias[:, None]
        return outputs

    def backward(self, g: Values, *, first: bool) -> Values:
        self.weight_gradient += g @ self.inputs.T
        self._add_to_bias_gradient(g)
        return g if first else self.weight.T @ g


class CompiledConv2d(CompiledLearnedLayer):
    """Convolution, as sums over lists of pixels: of each output pixel, input pixel and place of the kernel."""

    supports = staticmethod(layers.Conv2d.supports)
    shape: tuple[int, ...] = ()
    by_output: tuple[Offsets, ...]
    by_input: tuple[Offsets, ...]
    by_weight: tuple[Offsets, ...]

    def bind(self, weights: Mapping[str, Values], gradients: Mapping[str, Values]) -> None:
        super().bind(weights, gradients)
        outputs, channels = self.weight.shape[:2]
        self.by_place = self.weight.reshape(outputs, channels, -1)
        self.no_bias = np.zeros(channels, np.float32)

    def weights_changed(self) -> None:
        self.to_outputs = self.by_place.transpose(2, 1, 0).ravel()
        self.to_inputs = self.by_place.transpose(2, 0, 1).ravel()

    def forward(self, h: Values) -> Values:
        if h.shape != self.shape:
            self._prepare(h.shape)
        self.inputs = h.ravel()
        outputs = np.empty(self.output_shape, np.float32)
        self.products(outputs.ravel(), self.inputs, self.to_outputs, self.bias, *self.by_output)
        return outputs

    def backward(self, g: Values, *, first: bool) -> Values:
        flat = np.ascontiguousarray(g).ravel()
        self.weight_gradients(self.weight_gradient.reshape(-1), flat, self.inputs, *self.by_weight)
        self._add_to_bias_gradient(g)
        if first:
            return g
        gradient = np.empty(self.shape, np.float32)
        self.products_back(gradient.ravel(), flat, self.to_inputs, self.no_bias, *self.by_input)
        return gradient

    def _prepare(self, shape: tuple[int, ...]) -> None:
        """Compile code for inputs of a shape, and list the pixels that it works on."""
        channels, height, width, lanes = shape
        module, (outputs, _, *kernel) = self.module, self.weight.shape
        rows, columns = (
            (size + 2 * padding - dilation * (side - 1) - 1) // stride + 1
            for size, side, stride, padding, dilation in zip(
                (height, width), kernel, module.stride, module.padding, module.dilation, strict=True
            )
        )
        row, column, kernel_row, kernel_column = (each.ravel() for each in np.indices((rows, columns, *kernel)))
        y = row * module.stride[0] + kernel_row * module.dilation[0] - module.padding[0]
        x = column * module.stride[1] + kernel_column * module.dilation[1] - module.padding[1]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        pixel, output_pixel = (y * width + x)[inside], (row * columns + column)[inside]
        place = (kernel_row * kernel[1] + kernel_column)[inside]
        self.shape, self.output_shape = shape, (outputs, rows, columns, lanes)
        weights = place * (channels * outputs)
        self.by_output = _grouped(output_pixel, rows * columns, pixel * lanes, weights)
        self.by_input = _grouped(pixel, height * width, output_pixel * lanes, weights)
        sizes = channels, height * width, outputs, rows * columns
        self.products = _required(compiled_products(*sizes))
        self.products_back = _required(compiled_products(*sizes[2:], *sizes[:2]))
        self._prepare_weight_gradients(place, output_pixel * lanes, pixel * lanes)

    def _prepare_weight_gradients(self, place: Offsets, output_pixel: Offsets, pixel: Offsets) -> None:
        """Compile code for gradients of weights: at each place of all channels, or of few channels, in each row."""
        channels, height, width, lanes = self.shape
        outputs, rows, columns, _ = self.output_shape
        kernel, plane = self.weight.shape[2:], height * width * lanes
        places = kernel[0] * kernel[1]
        by_rows = channels < kernel[1] and not any(self.module.padding)
        if by_rows:
            # Each pixel of a row of the kernel is as far from the next as in all others.
            first = place % kernel[1] == 0
            starts, *pixels = _grouped(place[first] // kernel[1], kernel[0], output_pixel[first], pixel[first])
            length, channel = len(pixels[0]), np.arange(channels)[:, None]
            self.by_weight = (
                np.append((channel * length + starts[:-1]).ravel(), channels * length),
                np.tile(pixels[0], channels),
                (channel * plane + pixels[1]).ravel(),
                (channel * places + np.arange(kernel[0]) * kernel[1]).ravel(),
            )
        else:
            lists = _grouped(place, places, output_pixel, pixel)
            self.by_weight = *lists, np.arange(places)
        across = (kernel[1], self.module.dilation[1] * lanes, 1) if by_rows else (channels, plane, places)
        self.weight_gradients = _required(
            compiled_weight_gradients(outputs, rows * columns, channels * places, *across)
        )


KINDS: Mapping[type[nn.Module], type[CompiledLayer]] = {
    nn.Linear: CompiledLinear,
    nn.Conv2d: CompiledConv2d,
    nn.MaxPool2d: CompiledMaxPool2d,
    nn.ReLU: CompiledReLU,
    nn.Flatten: CompiledFlatten,
    nn.Identity: CompiledLayer,
}
"""Layers of the compiled engine, by the modules that they stand for."""


def _grouped(keys: Offsets, count: int, *lists: Offsets) -> tuple[Offsets, ...]:
    """Return where the entries of each of `count` keys begin in lists that are sorted by key, and these lists."""
    order = np.argsort(keys, kind="stable")
    starts = np.searchsorted(keys[order], np.arange(count + 1))
    return starts, *(each[order] for each in lists)


def _required(compiled: Any) -> Any:
    """Return compiled code, or raise an error where it could not be compiled."""
    if not compiled:
        raise ParameterError('engine = "compiled" could not compile its code with numba; use engine = "loop"')
    return compiled

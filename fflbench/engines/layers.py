"""Layers of many models at once, with forward and backward passes; the first axis of every tensor is the participant.

Written out rather than left to autograd, whose bookkeeping costs as much as the products of a small model.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn import grad as gradients_of

from fflbench.errors import ParameterError

Array = TypeVar("Array")


class Layer:
    """A layer without weights; `backward` follows the `forward` of the same batch."""

    def __init__(self, module: nn.Module) -> None:
        self.module: Any = module

    @staticmethod
    def supports(module: Any) -> bool:
        """Return whether a module with these settings can be trained."""
        return not getattr(module, "inplace", False)

    def bind(self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
        """Set the weights, and the tensors that gradients are written to."""

    def forward(self, h: Tensor) -> Tensor:
        """Return every participant's outputs on its own batch; h is participants x batch x the input's shape."""
        with torch.enable_grad():
            self.inputs = h.flatten(0, 1).detach().requires_grad_()
            self.outputs: Tensor = self.module(self.inputs)
        outputs: Tensor = self.outputs.detach().view(*h.shape[:2], *self.outputs.shape[1:])
        return outputs

    def backward(self, g: Tensor, *, first: bool) -> Tensor:
        """Return the gradient by inputs from that by outputs; its value does not matter where `first`."""
        (gradient,) = torch.autograd.grad(self.outputs, self.inputs, g.reshape(self.outputs.shape))
        return gradient.view(*g.shape[:2], *gradient.shape[1:])


class ReLU(Layer):
    """Rectified linear unit, without autograd, which never works in place."""

    @staticmethod
    def supports(module: Any) -> bool:
        return True

    def forward(self, h: Tensor) -> Tensor:
        self.outputs = torch.relu(h)
        return self.outputs

    def backward(self, g: Tensor, *, first: bool) -> Tensor:
        # The function that autograd calls: one pass, where a product with a mask takes two and a conversion.
        gradient: Tensor = torch.ops.aten.threshold_backward(g, self.outputs, 0)
        return gradient


class Flatten(Layer):
    """All axes but participants and batch flattened into one."""

    @staticmethod
    def supports(module: Any) -> bool:
        return (module.start_dim, module.end_dim) == (1, -1)

    def forward(self, h: Tensor) -> Tensor:
        self.shape = h.shape
        return h.flatten(2)

    def backward(self, g: Tensor, *, first: bool) -> Tensor:
        return g.reshape(self.shape)


class LearnedLayer(Layer):
    """A layer with a weight and optionally a bias."""

    def bind(self, weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> None:
        self.weight, self.bias = weights["weight"], weights.get("bias")
        self.weight_gradient, self.bias_gradient = gradients["weight"], gradients.get("bias")


class Linear(LearnedLayer):
    """Linear layers of all participants, as batched matrix products."""

    def forward(self, h: Tensor) -> Tensor:
        if h.ndim != 3:
            raise ParameterError('engine = "stacked" takes Linear on flat inputs only; use engine = "loop"')
        self.inputs = h
        if self.bias is None:
            return torch.bmm(h, self.weight.transpose(1, 2))
        return torch.baddbmm(self.bias.unsqueeze(1), h, self.weight.transpose(1, 2))

    def backward(self, g: Tensor, *, first: bool) -> Tensor:
        # BLAS is several times slower on narrow results than on wide ones, so the longer side goes last.
        if self.inputs.shape[2] < g.shape[2]:
            self.weight_gradient.copy_(torch.bmm(self.inputs.transpose(1, 2), g).transpose(1, 2))
        else:
            torch.bmm(g.transpose(1, 2), self.inputs, out=self.weight_gradient)
        if self.bias_gradient is not None:
            torch.sum(g, 1, out=self.bias_gradient)
        return g if first else torch.bmm(g, self.weight)


class Conv2d(LearnedLayer):
    """Convolutions of all participants, as groups of one large convolution."""

    @staticmethod
    def supports(module: Any) -> bool:
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)

    def forward(self, h: Tensor) -> Tensor:
        participants, batch = h.shape[:2]
        self.inputs = h.transpose(0, 1).flatten(1, 2)
        self.options = (self.module.stride, self.module.padding, self.module.dilation, participants)
        bias = None if self.bias is None else self.bias.flatten()
        merged = F.conv2d(self.inputs, self.weight.flatten(0, 1), bias, *self.options)
        return merged.view(batch, participants, -1, *merged.shape[2:]).transpose(0, 1)

    def backward(self, g: Tensor, *, first: bool) -> Tensor:
        participants, batch = g.shape[:2]
        merged = g.transpose(0, 1).flatten(1, 2)
        weight = self.weight.flatten(0, 1)
        gradient: Tensor = gradients_of.conv2d_weight(  # type: ignore[no-untyped-call]
            self.inputs, weight.shape, merged, *self.options
        )
        self.weight_gradient.copy_(gradient.view(self.weight.shape))
        if self.bias_gradient is not None:
            torch.sum(g, (1, 3, 4), out=self.bias_gradient)
        if first:
            return g
        back: Tensor = gradients_of.conv2d_input(  # type: ignore[no-untyped-call]
            self.inputs.shape, weight, merged, *self.options
        )
        return back.view(batch, participants, -1, *back.shape[2:]).transpose(0, 1)


KINDS: Mapping[type[nn.Module], type[Layer]] = {
    nn.Linear: Linear,
    nn.Conv2d: Conv2d,
    nn.ReLU: ReLU,
    nn.Flatten: Flatten,
    **dict.fromkeys((nn.MaxPool2d, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.Identity), Layer),
}
"""Layers of the stacked engine, by the modules that they stand for."""


class LayerSequence(Generic[Array]):
    """A sequence of layers of an engine, of the kinds that it has."""

    def __init__(self, model: nn.Module, kinds: Mapping[type[nn.Module], type[Any]], engine: str) -> None:
        # Not `named_children`, which leaves out a module that appears a second time.
        modules: dict[str, Any] = dict(model._modules) if type(model) is nn.Sequential else {"": model}
        learning = [module for module in modules.values() if type(module) in (nn.Linear, nn.Conv2d)]
        for module in modules.values():
            kind = kinds.get(type(module))
            if not kind or not kind.supports(module) or learning.count(module) > 1:
                raise ParameterError(f'engine = "{engine}" cannot train {type(module).__name__}; use engine = "loop"')
        if not all(parameter.requires_grad for parameter in model.parameters()):
            raise ParameterError(
                f'engine = "{engine}" cannot train a model with frozen parameters; use engine = "loop"'
            )
        self.layers = {name: kinds[type(module)](module) for name, module in modules.items()}
        self.first = next(self.layers[name] for name, module in modules.items() if module in learning)

    def bind(self, weights: Mapping[str, Array], gradients: Mapping[str, Array]) -> None:
        """Set all layers' weights and the arrays for their gradients, by the model's parameter names."""
        for name, layer in self.layers.items():
            prefix = f"{name}." if name else ""
            own = {key.removeprefix(prefix) for key in weights if key.startswith(prefix)}
            layer.bind(*({key: held[prefix + key] for key in own} for held in (weights, gradients)))

    def forward(self, h: Array) -> Array:
        """Return the outputs of the last layer."""
        for layer in self.layers.values():
            h = layer.forward(h)
        return h

    def backward(self, g: Array) -> None:
        """Compute the gradients of all weights from the gradient by the outputs."""
        for layer in reversed(self.layers.values()):
            g = layer.backward(g, first=layer is self.first)
            if layer is self.first:
                break


def _cannot_train(engine: str, what: str) -> ParameterError:
    return ParameterError(f'engine = "{engine}" cannot train {what}; use engine = "loop"')

"""The compiled engine's layers against autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fflbench.arrays.compiled_convolutions import LANES
from fflbench.engines.compiled_layers import KINDS
from fflbench.engines.layers import LayerSequence
from fflbench.errors import ParameterError


def prepared(model):
    """Layers of a model, and the gradients that they add to."""
    parameters = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    gradients = {name: np.zeros_like(weight) for name, weight in parameters.items()}
    layers = LayerSequence(model, KINDS, "compiled")
    layers.bind(parameters, gradients)
    for layer in layers.layers.values():
        layer.weights_changed()
    return layers, gradients


def compare_with_autograd(model, x):
    """Compare outputs and gradients of all weights; x is examples x the input's shape."""
    layers, gradients = prepared(model)
    outputs = layers.forward(np.ascontiguousarray(np.moveaxis(x.numpy(), 0, -1)))
    wanted = model(x)
    np.testing.assert_allclose(np.moveaxis(outputs, -1, 0), wanted.detach(), rtol=1e-4, atol=1e-5)
    by_outputs = torch.randn_like(wanted)
    layers.backward(np.moveaxis(by_outputs.numpy(), 0, -1))
    found = torch.autograd.grad(wanted, list(model.parameters()), by_outputs)
    for (name, gradient), autograd in zip(gradients.items(), found, strict=True):
        np.testing.assert_allclose(gradient, autograd, rtol=1e-4, atol=1e-4, err_msg=name)


@settings(max_examples=8)
@given(
    channels=st.integers(1, 6),
    outputs=st.integers(1, 30),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 1)),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
)
def test_convolutions_are_those_of_torch(channels, outputs, kernel, stride, padding, dilation, bias):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, channels, 1),
        nn.Conv2d(channels, outputs, kernel, stride, padding, dilation, bias=bias),
        nn.Flatten(),
    )
    compare_with_autograd(model, torch.randn(LANES, 2, 7, 6))


@pytest.mark.parametrize(
    "model",
    [
        nn.Linear(5, 3),
        nn.Sequential(nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Identity(), nn.Linear(4, 1)),
        nn.Sequential(nn.ReLU(inplace=True), nn.Linear(5, 2)),
    ],
)
def test_linear_layers_are_those_of_torch(model):
    compare_with_autograd(model, torch.randn(LANES, 5))


@pytest.mark.parametrize(("side", "left"), [(2, 8), (3, 2)])
def test_pooling_is_that_of_torch_with_pixels_left_over_and_ties(side, left):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.MaxPool2d(side), nn.ReLU(), nn.Flatten(), nn.Linear(left, 3))
    # Of whole numbers, so that several pixels of a square are the largest.
    compare_with_autograd(model, torch.randint(-2, 3, (LANES, 1, 5, 4)).float())


def test_a_value_that_is_not_a_number_stays_in_its_example():
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten())
    x = np.ones((1, 2, 2, LANES), np.float32)
    x[0, 1, 0, 3] = np.nan
    outputs = prepared(model)[0].forward(x)
    assert np.isnan(outputs).nonzero()[-1].tolist() == [3]


@pytest.mark.parametrize(
    "layer",
    [
        nn.MaxPool2d(3, 2),
        nn.MaxPool2d((2, 1)),
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(1, 1, 3, padding="same"),
        nn.Sigmoid(),
        nn.BatchNorm2d(1),
    ],
)
def test_other_layers_are_refused(layer):
    with pytest.raises(ParameterError, match=f'"compiled" cannot train {type(layer).__name__}; use engine = "loop"'):
        LayerSequence(nn.Sequential(nn.Conv2d(1, 1, 1), layer), KINDS, "compiled")


def test_code_that_cannot_be_compiled_is_reported(monkeypatch):
    monkeypatch.setattr("fflbench.engines.compiled_layers.compiled_products", lambda *sizes: None)
    layers, _ = prepared(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten()))
    with pytest.raises(ParameterError, match='could not compile its code with numba; use engine = "loop"'):
        layers.forward(np.ones((1, 2, 2, LANES), np.float32))

"""Signals of many examples, against those of one example at a time."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fflbench import registry
from fflbench.engines.flat_model import FlatModel
from fflbench.federation.rounds import new_model
from fflbench.privacy.per_example_signals import PerExampleSignals, parameter_names
from fflbench.registry import Kind


def create_signals(name, shape, classes, **fields):
    task = registry.get(Kind.TASK, name).create(**fields)
    model = FlatModel(new_model(task, 0), torch.device("cpu"))
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(6, *shape)).astype(np.float32))
    y = torch.from_numpy(rng.integers(classes, size=6))
    return PerExampleSignals(task, model, x, y), model, x, y


@pytest.mark.parametrize(("name", "shape", "classes"), [("digits-cnn", (1, 8, 8), 10), ("adult-mlp", (10,), 2)])
def test_losses_confidences_and_gradients_are_those_of_plain_torch(name, shape, classes):
    examination, model, x, y = create_signals(name, shape, classes)
    which = np.array([4, 0, 5])
    rng = np.random.default_rng(1)
    weights = model.flat.numpy() + rng.normal(scale=0.1, size=model.columns.count).astype(np.float32)
    found = torch.cat(list(examination.gradient_batches(weights, which)))
    losses, sure = examination.losses(weights, which), examination.logit_confidences(weights, which)
    fed = examination.last_layer_inputs(weights, which)
    model.load(weights)
    for place, example in enumerate(which):
        outputs = model.model(x[[example]])
        if classes == 2:
            loss = F.binary_cross_entropy_with_logits(outputs[0, 0], y[example].float())
            right = torch.sigmoid(outputs[0, 0]) if y[example] else 1 - torch.sigmoid(outputs[0, 0])
        else:
            loss = F.cross_entropy(outputs, y[[example]])
            right = outputs.softmax(1)[0, y[example]]
        wanted = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.model.parameters()))])
        torch.testing.assert_close(found[place], wanted, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(losses[place], loss.detach(), rtol=1e-4, atol=1e-6)
        assert float(sure[place]) == pytest.approx(float(torch.log(right / (1 - right)).detach()), rel=1e-3)
        torch.testing.assert_close(fed[place], model.model[:-1](x[[example]])[0].detach(), rtol=1e-4, atol=1e-6)


def test_running_statistics_come_with_the_weights():
    examination, model, _, _ = create_signals("cifar10-vgg16", (3, 32, 32), 10)
    weights = model.flat.numpy().copy()
    before = examination.losses(weights, np.arange(2))
    name = [name for name in model.columns.spans if name.endswith("running_mean")][-1]
    weights[model.columns.spans[name]] += 1.0
    assert not torch.allclose(before, examination.losses(weights, np.arange(2)))
    assert name not in parameter_names(model.columns)


def test_frozen_parameters_have_gradients_of_zero():
    signals, model, _, _ = create_signals("adult-mlp", (10,), 2)
    which = np.array([4, 0, 5])
    weights = model.flat.numpy().copy()
    whole = torch.cat(list(signals.gradient_batches(weights, which)))
    first = next(model.model.parameters())
    first.requires_grad_(False)
    some = torch.cat(list(signals.gradient_batches(weights, which)))
    assert not some[:, : first.numel()].any()
    torch.testing.assert_close(some[:, first.numel() :], whole[:, first.numel() :])

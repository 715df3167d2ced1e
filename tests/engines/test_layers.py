"""The written-out backward pass against autograd, layer by layer and whole."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fflbench import registry
from fflbench.engines.layers import KINDS, LayerSequence
from fflbench.engines.losses import loss_gradients, losses
from fflbench.registry import Kind

PEOPLE, BATCH = 3, 5

MODELS = {
    "narrow to wide": (lambda: nn.Linear(4, 9), (4,)),
    "wide to narrow": (lambda: nn.Linear(9, 1), (9,)),
    "no bias": (lambda: nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 2)), (4,)),
    "flatten first": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), (3, 4)),
    "all elementwise": (
        lambda: nn.Sequential(
            nn.Linear(4, 6),
            nn.Sigmoid(),
            nn.Linear(6, 6),
            nn.Tanh(),
            nn.Identity(),
            nn.Linear(6, 6),
            nn.GELU(),
            nn.SiLU(),
            nn.LeakyReLU(0.1),
            nn.Linear(6, 2),
        ),
        (4,),
    ),
    "sigmoid then relu": (lambda: nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.ReLU(), nn.Linear(6, 2)), (4,)),
    "relu before anything learns": (lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), (4,)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(3, 4, 2, stride=2, bias=False),
            nn.Tanh(),
            nn.Conv2d(4, 2, 2, dilation=1),
            nn.Flatten(),
            nn.Linear(2, 3),
        ),
        (2, 8, 8),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_are_autograds(name):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    models = [make() for _ in range(PEOPLE)]
    x = torch.randn(PEOPLE, BATCH, *shape)
    stack = LayerSequence(models[0], KINDS, "stacked")
    names = [key for key, _ in models[0].named_parameters()]
    weights = {key: torch.stack([dict(model.named_parameters())[key] for model in models]).detach() for key in names}
    gradients = {key: torch.full_like(weight, torch.nan) for key, weight in weights.items()}
    stack.bind(weights, gradients)
    untouched = x.clone()
    with torch.no_grad():
        outputs = stack.forward(x)
        by_outputs = torch.randn_like(outputs)
        stack.backward(by_outputs)
    assert torch.equal(x, untouched)
    for place, model in enumerate(models):
        found = model(x[place])
        torch.testing.assert_close(outputs[place], found, rtol=1e-5, atol=1e-6)
        wanted = torch.autograd.grad(found, list(model.parameters()), by_outputs[place])
        for key, gradient in zip(names, wanted, strict=True):
            torch.testing.assert_close(gradients[key][place], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("task", "outputs"), [("digits-mlp", 10), ("adult-mlp", 1)])
def test_loss_gradients_are_autograds(task, outputs):
    it = registry.get(Kind.TASK, task).create()
    torch.manual_seed(0)
    y = torch.randint(0, len(it.classes), (PEOPLE, BATCH))
    for scale in (1, 100):
        made = (scale * torch.randn(PEOPLE, BATCH, outputs)).requires_grad_()
        (wanted,) = torch.autograd.grad(losses(it, made, y).sum(), made)
        torch.testing.assert_close(loss_gradients(it, made.detach(), y), wanted, rtol=1e-5, atol=1e-6)


def test_losses_are_torchs():
    it = registry.get(Kind.TASK, "digits-mlp").create()
    outputs, y = torch.randn(4, 6, 10), torch.randint(0, 10, (4, 6))
    torch.testing.assert_close(losses(it, outputs, y)[2], F.cross_entropy(outputs[2], y[2], reduction="none"))

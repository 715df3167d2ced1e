"""Reconstructions of many victims at once, beside a plain loop over them, on one thread.

The plain loop is that of published code: double backpropagation through torch's autograd, and torch's optimisers.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import Ratio, Side, compare
from fflbench import registry
from fflbench.arrays.threads import one_thread
from fflbench.engines.flat_model import FlatModel
from fflbench.federation.rounds import new_model
from fflbench.privacy import ObservedGradients
from fflbench.privacy.cosine_inversion import cosine_distance
from fflbench.privacy.gradient_inversion import relative_squared_distance
from fflbench.privacy.victim_updates import (
    draw_victim_examples,
    gradients_from_updates,
    pretrain_global_model,
    train_victims,
    value_range,
)
from fflbench.registry import Kind

VICTIMS = 20
STEPS = 100
RATE = 0.1


def measure_ratios(*, peers: bool) -> Iterator[Ratio]:
    """Yield ratios of the seconds of all reconstructions: signed Adam with equal steps, L-BFGS with at most as many.

    Torch's L-BFGS stops by its own criteria, ours where gradients agree to single precision.
    """
    seen = observe_digit_gradients(VICTIMS)
    with one_thread():
        yield from compare(
            f"inverting-gradients, {VICTIMS} digits, {STEPS} steps",
            batched_reconstruction("inverting-gradients", seen, steps=STEPS),
            {"plain loop over victims": (looped_reconstruction(seen, invert_one_by_cosine), None)},
        )
        yield from compare(
            f"dlg, {VICTIMS} digits, {STEPS} steps",
            batched_reconstruction("dlg", seen, steps=STEPS),
            {"plain loop over victims with torch's L-BFGS": (looped_reconstruction(seen, invert_one_by_lbfgs), None)},
        )


def observe_digit_gradients(victims: int) -> ObservedGradients:
    """Return the gradients of victims with one digit each, observed without a defense."""
    task = registry.get(Kind.TASK, "digits-cnn").create()
    model = FlatModel(new_model(task, 0), torch.device("cpu"))
    held = draw_victim_examples(task, 1, victims, 1, 0)
    pretrain_global_model(task, model, held, 0, 0)
    group = train_victims(task, model, held[0], 1, RATE)
    low, high = map(torch.from_numpy, value_range(task.data().train.x))
    return ObservedGradients(
        model=model.model,
        gradients=gradients_from_updates(model, list(group.updates), 1, RATE),
        count=1,
        shape=group.x.shape[2:],
        classes=len(task.classes),
        loss=task.loss,
        low=low,
        high=high,
        generator=torch.Generator().manual_seed(0),
    )


def batched_reconstruction(name: str, seen: ObservedGradients, steps: int) -> Side:
    """Return our side: all victims at once."""
    attack = registry.get(Kind.PRIVACY_ATTACK, name).create(steps=steps)
    return lambda: attack.reconstruct(seen)


def looped_reconstruction(seen: ObservedGradients, attack) -> Side:  # type: ignore[no-untyped-def]
    """Return the other side: one victim after the other."""

    def run_side() -> None:
        for victim in range(seen.victim_count):
            attack(seen, tuple(gradient[victim] for gradient in seen.gradients))

    return run_side


def invert_one_by_cosine(seen: ObservedGradients, wanted: tuple[Tensor, ...]) -> None:
    """Run the attack of Geiping et al.: signed Adam on one minus the cosine, the label known."""
    y = wanted[-1].argmin()[None]
    x = torch.randn(1, *seen.shape).requires_grad_()
    optimizer = torch.optim.Adam([x], lr=0.1)
    for _ in range(STEPS):
        dummy = torch.autograd.grad(F.cross_entropy(seen.model(x), y), list(seen.model.parameters()), create_graph=True)
        loss = cosine_distance(dummy, wanted)
        x.grad = torch.autograd.grad(loss, x)[0].sign()
        optimizer.step()
        with torch.no_grad():
            x.clamp_(0, 1)


def invert_one_by_lbfgs(seen: ObservedGradients, wanted: tuple[Tensor, ...]) -> None:
    """Run the attack of Zhu et al.: L-BFGS on inputs and labels, with a line search so that it converges."""
    x, y = torch.randn(1, *seen.shape).requires_grad_(), torch.randn(1, seen.classes).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [x, y], max_iter=STEPS, history_size=30, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = -(y.softmax(-1) * seen.model(x).log_softmax(-1)).sum(-1).mean()
        dummy = torch.autograd.grad(loss, list(seen.model.parameters()), create_graph=True)
        distance = relative_squared_distance(dummy, wanted)
        distance.backward()
        return distance

    optimizer.step(closure)

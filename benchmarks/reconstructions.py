"""Reconstructions of many victims at once, beside a plain loop over them, on one thread.

The plain loop is what papers publish: a victim's gradient by torch's autograd, twice, and torch's own optimiser.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.timing import Ratio, Side, race
from fflbench import registry
from fflbench.engines.flat_model import FlatModel
from fflbench.federation.rounds import new_model, one_thread
from fflbench.privacy import Observed
from fflbench.privacy.cosine import away
from fflbench.privacy.inversion import squared
from fflbench.privacy.victims import draw, gradients, prepare, trained, value_range
from fflbench.registry import Kind

VICTIMS = 20
STEPS = 100
RATE = 0.1


def ratios(*, peers: bool) -> Iterator[Ratio]:
    """Seconds that all reconstructions take: signed Adam with as many steps on both sides; L-BFGS with at most as many.

    Torch's stops where its own tests say so, ours where a gradient is explained to single precision.
    """
    seen = observed(VICTIMS)
    with one_thread():
        yield from race(
            f"inverting-gradients, {VICTIMS} digits, {STEPS} steps",
            ours("inverting-gradients", seen, steps=STEPS),
            {"plain loop over victims": (plain(seen, cosine), None)},
        )
        yield from race(
            f"dlg, {VICTIMS} digits, {STEPS} steps",
            ours("dlg", seen, steps=STEPS),
            {"plain loop over victims with torch's L-BFGS": (plain(seen, dlg), None)},
        )


def observed(victims: int) -> Observed:
    """Single digits, as a server without a defense sees them."""
    task = registry.get(Kind.TASK, "digits-cnn").create()
    model = FlatModel(new_model(task, 0), torch.device("cpu"))
    held = draw(task, 1, victims, 1, 0)
    prepare(task, model, held, 0, 0)
    group = trained(task, model, held[0], 1, RATE)
    low, high = map(torch.from_numpy, value_range(task.data().train.x))
    return Observed(
        model=model.model,
        gradients=gradients(model, list(group.updates), 1, RATE),
        count=1,
        shape=group.x.shape[2:],
        classes=len(task.classes),
        loss=task.loss,
        low=low,
        high=high,
        generator=torch.Generator().manual_seed(0),
    )


def ours(name: str, seen: Observed, steps: int) -> Side:
    """All victims at once."""
    attack = registry.get(Kind.PRIVACY_ATTACK, name).create(steps=steps)
    return lambda: attack.reconstruct(seen)


def plain(seen: Observed, attack) -> Side:  # type: ignore[no-untyped-def]
    """One victim after the other."""

    def play() -> None:
        for victim in range(seen.victims):
            attack(seen, tuple(gradient[victim] for gradient in seen.gradients))

    return play


def cosine(seen: Observed, wanted: tuple[Tensor, ...]) -> None:
    """Geiping et al.: signed Adam on one less the cosine, the label known."""
    y = wanted[-1].argmin()[None]
    x = torch.randn(1, *seen.shape).requires_grad_()
    optimizer = torch.optim.Adam([x], lr=0.1)
    for _ in range(STEPS):
        found = torch.autograd.grad(F.cross_entropy(seen.model(x), y), list(seen.model.parameters()), create_graph=True)
        loss = away(found, wanted)
        x.grad = torch.autograd.grad(loss, x)[0].sign()
        optimizer.step()
        with torch.no_grad():
            x.clamp_(0, 1)


def dlg(seen: Observed, wanted: tuple[Tensor, ...]) -> None:
    """Zhu et al.: L-BFGS on inputs and labels; the line search keeps it from running away."""
    x, y = torch.randn(1, *seen.shape).requires_grad_(), torch.randn(1, seen.classes).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [x, y], max_iter=STEPS, history_size=30, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = -(y.softmax(-1) * seen.model(x).log_softmax(-1)).sum(-1).mean()
        found = torch.autograd.grad(loss, list(seen.model.parameters()), create_graph=True)
        apart = squared(found, wanted)
        apart.backward()
        return apart

    optimizer.step(closure)

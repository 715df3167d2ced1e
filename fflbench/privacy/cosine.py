"""Gradient inversion by cosine distance: signed Adam on one minus the cosine (Geiping et al., NeurIPS 2020)."""

import torch
from torch import Tensor

from fflbench.privacy.attack import Guess, Observed
from fflbench.privacy.inversion import Objective, labels, logits_of, matching

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's usual constants."""


def invert(observed: Observed, steps: int, rate: float, smoothness: float, restarts: int) -> Guess:
    """Return the best of several searches for each victim, with labels from the last layer's gradient."""
    y = labels(observed)
    logits = logits_of(y, observed.classes)
    objective = matching(observed, away, lambda x: smoothness * total_variation(x))
    results = []
    for _ in range(restarts):
        start = observed.start(observed.count, *observed.shape)
        results.append(_search(objective, start, logits, steps, rate, observed))
    best = torch.stack([values.nan_to_num(torch.inf) for _, values in results]).argmin(0)
    rows = torch.arange(observed.victims, device=best.device)
    return Guess(torch.stack([x for x, _ in results])[best, rows], y)


def _search(
    objective: Objective, x: Tensor, logits: Tensor, steps: int, rate: float, observed: Observed
) -> tuple[Tensor, Tensor]:
    mean, square = torch.zeros_like(x), torch.zeros_like(x)
    falls = [steps * part // 8 for part in (3, 5, 7)]
    for step in range(1, steps + 1):
        (by_x, _), _ = objective(x, logits)
        # Only the sign of the gradient, as the authors' code does.
        by_x = by_x.sign()
        mean.lerp_(by_x, 1 - BETA1)
        square.mul_(BETA2).addcmul_(by_x, by_x, value=1 - BETA2)
        size = rate * 0.1 ** sum(step > fall for fall in falls) / (1 - BETA1**step)
        x = x - size * mean / (square / (1 - BETA2**step)).sqrt_().add_(EPSILON)
        x = torch.minimum(torch.maximum(x, observed.low), observed.high)
        observed.report(1)
    return x, objective(x, logits)[1]


def away(made: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> Tensor:
    """Return one minus the cosine of the angle between two gradients, all layers together."""
    product = torch.stack([(a * b).sum() for a, b in zip(made, wanted, strict=True)]).sum()
    lengths = [torch.stack([part.square().sum() for part in parts]).sum().sqrt() for parts in (made, wanted)]
    return 1 - product / (lengths[0] * lengths[1] + 1e-20)


def total_variation(x: Tensor) -> Tensor:
    """Return the mean absolute difference of neighbouring pixels in both directions; zero for other examples."""
    if x.ndim < 4:
        return x.new_zeros(())
    across, down = (x[..., :, 1:] - x[..., :, :-1]).abs(), (x[..., 1:, :] - x[..., :-1, :]).abs()
    return across.mean() + down.mean()

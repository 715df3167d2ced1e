"""Gradient inversion by cosine distance: signed Adam on one minus the cosine (Geiping et al., NeurIPS 2020)."""

import torch
from torch import Tensor

from fflbench.privacy.gradient_inversion import Objective, gradient_matching_objective, infer_labels, one_hot_logits
from fflbench.privacy.reconstruction_attack import ObservedGradients, ReconstructedExamples

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's usual constants."""


def invert_by_cosine(
    observed: ObservedGradients, steps: int, rate: float, smoothness: float, restarts: int
) -> ReconstructedExamples:
    """Return the best of several searches for each victim, with labels from the last layer's gradient."""
    y = infer_labels(observed)
    logits = one_hot_logits(y, observed.classes)
    objective = gradient_matching_objective(observed, cosine_distance, lambda x: smoothness * total_variation(x))
    results = []
    for _ in range(restarts):
        start = observed.random_start(observed.count, *observed.shape)
        results.append(_minimise_by_signed_adam(objective, start, logits, steps, rate, observed))
    best = torch.stack([values.nan_to_num(torch.inf) for _, values in results]).argmin(0)
    rows = torch.arange(observed.victim_count, device=best.device)
    return ReconstructedExamples(torch.stack([x for x, _ in results])[best, rows], y)


def _minimise_by_signed_adam(
    objective: Objective, x: Tensor, logits: Tensor, steps: int, rate: float, observed: ObservedGradients
) -> tuple[Tensor, Tensor]:
    mean, square = torch.zeros_like(x), torch.zeros_like(x)
    decays = [steps * part // 8 for part in (3, 5, 7)]
    for step in range(1, steps + 1):
        (gradient, _), _ = objective(x, logits)
        # Only the sign of the gradient, as the authors' code does.
        gradient = gradient.sign()
        mean.lerp_(gradient, 1 - BETA1)
        square.mul_(BETA2).addcmul_(gradient, gradient, value=1 - BETA2)
        size = rate * 0.1 ** sum(step > decay for decay in decays) / (1 - BETA1**step)
        x = x - size * mean / (square / (1 - BETA2**step)).sqrt_().add_(EPSILON)
        x = torch.minimum(torch.maximum(x, observed.low), observed.high)
        observed.report(1)
    return x, objective(x, logits)[1]


def cosine_distance(dummy: tuple[Tensor, ...], target: tuple[Tensor, ...]) -> Tensor:
    """Return one minus the cosine of the angle between two gradients, all layers together."""
    product = torch.stack([(a * b).sum() for a, b in zip(dummy, target, strict=True)]).sum()
    norms = [torch.stack([part.square().sum() for part in parts]).sum().sqrt() for parts in (dummy, target)]
    return 1 - product / (norms[0] * norms[1] + 1e-20)


def total_variation(x: Tensor) -> Tensor:
    """Return the mean absolute difference of neighbouring pixels in both directions; zero for other examples."""
    if x.ndim < 4:
        return x.new_zeros(())
    across, down = (x[..., :, 1:] - x[..., :, :-1]).abs(), (x[..., 1:, :] - x[..., :-1, :]).abs()
    return across.mean() + down.mean()

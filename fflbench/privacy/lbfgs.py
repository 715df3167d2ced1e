"""L-BFGS for many small problems at once (Nocedal, Updating quasi-Newton matrices with limited storage, 1980)."""

from collections.abc import Callable

import torch
from torch import Tensor

ARMIJO = 1e-4
HALVINGS = 12

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From points, a row each, to values and gradients."""


def minimise(objective: Objective, start: Tensor, steps: int, history: int = 30) -> tuple[Tensor, Tensor]:
    """The points reached from each start, and their values; every row walks by itself, by backtracking."""
    z = start
    value, gradient = objective(z)
    moves: list[Tensor] = []
    changes: list[Tensor] = []
    for _ in range(steps):
        direction = -_inverse_times(gradient, moves, changes)
        slope = _dot(direction, gradient)
        # Where curvature misled, or at the very start, straight down and not too far.
        lost = slope >= 0
        direction = torch.where(lost[:, None], -gradient, direction)
        slope = torch.where(lost, -_dot(gradient, gradient), slope)
        length = torch.ones_like(value) if moves else (1 / gradient.abs().sum(1).clamp(min=1e-12)).clamp(max=1)
        open_ = torch.ones_like(lost)
        after, value_after, gradient_after = z, value, gradient
        for _ in range(HALVINGS):
            tried = torch.where(open_[:, None], z + length[:, None] * direction, after)
            found, found_gradient = objective(tried)
            good = open_ & (found <= value + ARMIJO * length * slope)
            after = torch.where(good[:, None], tried, after)
            value_after = torch.where(good, found, value_after)
            gradient_after = torch.where(good[:, None], found_gradient, gradient_after)
            open_ = open_ & ~good
            if not open_.any():
                break
            length = torch.where(open_, length / 2, length)
        moves, changes = [*moves, after - z][-history:], [*changes, gradient_after - gradient][-history:]
        if not (after != z).any():
            break
        z, value, gradient = after, value_after, gradient_after
    return z, value


def _inverse_times(gradient: Tensor, moves: list[Tensor], changes: list[Tensor]) -> Tensor:
    """The inverse Hessian, as the last steps tell of it, times the gradient; two loops."""
    result, kept = gradient.clone(), []
    for move, change in zip(reversed(moves), reversed(changes), strict=True):
        curvature = _dot(move, change)
        # A pair without curvature, or of a row that stood still, counts for nothing.
        rho = torch.where(curvature > 1e-20, 1 / curvature, torch.zeros_like(curvature))
        alpha = rho * _dot(move, result)
        result -= alpha[:, None] * change
        kept.append((move, change, rho, alpha))
    if moves:
        scale = _dot(moves[-1], changes[-1]) / _dot(changes[-1], changes[-1]).clamp(min=1e-30)
        result *= torch.where(scale > 0, scale, torch.ones_like(scale))[:, None]
    for move, change, rho, alpha in reversed(kept):
        beta = rho * _dot(change, result)
        result += (alpha - beta)[:, None] * move
    return result


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)

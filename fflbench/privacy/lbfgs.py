"""L-BFGS for many small problems at once (Nocedal, Updating quasi-Newton matrices with limited storage, 1980)."""

from collections.abc import Callable

import torch
from torch import Tensor

ARMIJO = 1e-4
TRIALS = (1, 6, 6)
"""How many step lengths are tried at once, each half of the one before: many cost hardly more than one."""

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From points, a row each, and the numbers of their problems, to values and gradients."""


def minimise(
    objective: Objective,
    start: Tensor,
    steps: int,
    history: int = 30,
    enough: float = 0.0,
    tell: Callable[[int], None] = lambda _: None,
) -> tuple[Tensor, Tensor]:
    """The points reached from each start, and their values.

    Every row walks by itself, by backtracking, and rests once its value is `enough` or no step helps: then the others
    go on without it.
    """
    points, rows = start.clone(), torch.arange(len(start), device=start.device)
    z = start
    value, gradient = objective(z, rows)
    values = value.clone()
    moves: list[Tensor] = []
    changes: list[Tensor] = []
    fresh = torch.ones_like(rows, dtype=torch.bool)
    for _ in range(steps):
        direction = -_inverse_times(gradient, moves, changes)
        slope = _dot(direction, gradient)
        # Where curvature misled, or there is none yet, straight down and not too far.
        fresh = fresh | (slope >= 0) | ~slope.isfinite()
        direction = torch.where(fresh[:, None], -gradient, direction)
        slope = torch.where(fresh, -_dot(gradient, gradient), slope)
        careful = (1 / gradient.abs().sum(1).clamp(min=1e-12)).clamp(max=1)
        after, value_after, gradient_after = _backtrack(
            objective, rows, z, value, gradient, direction, slope, torch.where(fresh, careful, 1.0)
        )
        move, change = after - z, gradient_after - gradient
        # What was learnt before a step straight down led nowhere: it counts no more.
        moves = [torch.where(fresh[:, None], 0.0, old) for old in moves] if fresh.any() else moves
        moves, changes = [*moves, move][-history:], [*changes, change][-history:]
        moved = (move != 0).any(1)
        points[rows], values[rows] = after, value_after
        going = (moved | ~fresh) & (value_after > enough)
        fresh = ~moved
        z, value, gradient = after, value_after, gradient_after
        if not going.all():
            rows, z, value, gradient, fresh = (part[going] for part in (rows, z, value, gradient, fresh))
            moves, changes = [old[going] for old in moves], [old[going] for old in changes]
        tell(1)
        if not len(rows):
            break
    return points, values


def _backtrack(
    objective: Objective,
    rows: Tensor,
    z: Tensor,
    value: Tensor,
    gradient: Tensor,
    direction: Tensor,
    slope: Tensor,
    length: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Points that are lower by enough (Armijo), their values and gradients; where there is none, those before."""
    after, value_after, gradient_after = z.clone(), value.clone(), gradient.clone()
    looking = torch.arange(len(z), device=z.device)
    for count in TRIALS:
        halves = 0.5 ** torch.arange(count, device=z.device)
        # A row for each of the lengths, longest first, for each who is still looking.
        each, lengths = looking.repeat_interleave(count), (length[looking, None] * halves).flatten()
        tried = z[each] + lengths[:, None] * direction[each]
        found, found_gradient = objective(tried, rows[each])
        good = (found <= value[each] + ARMIJO * lengths * slope[each]).view(-1, count)
        some = good.any(1)
        # Of several ones argmax names the first, the longest step.
        chosen = (torch.arange(len(looking), device=z.device) * count + good.int().argmax(1))[some]
        places = looking[some]
        after[places], value_after[places], gradient_after[places] = (
            tried[chosen],
            found[chosen],
            found_gradient[chosen],
        )
        length = length * 0.5**count
        looking = looking[~some]
        if not len(looking):
            break
    return after, value_after, gradient_after


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

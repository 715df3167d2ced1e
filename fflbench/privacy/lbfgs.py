"""L-BFGS for many small problems at once (Nocedal, Updating quasi-Newton matrices with limited storage, 1980)."""

from collections.abc import Callable

import torch
from torch import Tensor

ARMIJO = 1e-4
TRIALS = (1, 6, 6)
"""Number of step lengths that are tried at once, each half of the one before: many cost hardly more than one."""

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Function from points, one row per problem, and the problems' indices to values and gradients."""


def minimise(
    objective: Objective,
    start: Tensor,
    steps: int,
    history: int = 30,
    tolerance: float = 0.0,
    report: Callable[[int], None] = lambda _: None,
) -> tuple[Tensor, Tensor]:
    """Return the points reached from each start, and their values.

    Rows are independent problems with a backtracking line search; a row stops once its value is at most
    `tolerance` or no step improves it, and the others continue without it.
    """
    points, rows = start.clone(), torch.arange(len(start), device=start.device)
    z = start
    value, gradient = objective(z, rows)
    values = value.clone()
    moves: list[Tensor] = []
    changes: list[Tensor] = []
    restart = torch.ones_like(rows, dtype=torch.bool)
    for _ in range(steps):
        direction = -_multiply_by_inverse_hessian(gradient, moves, changes)
        slope = _row_dot_products(direction, gradient)
        # Without curvature, or where it gave no descent direction: steepest descent with a bounded step.
        restart = restart | (slope >= 0) | ~slope.isfinite()
        direction = torch.where(restart[:, None], -gradient, direction)
        slope = torch.where(restart, -_row_dot_products(gradient, gradient), slope)
        bounded = (1 / gradient.abs().sum(1).clamp(min=1e-12)).clamp(max=1)
        after, value_after, gradient_after = _backtracking_line_search(
            objective, rows, z, value, gradient, direction, slope, torch.where(restart, bounded, 1.0)
        )
        move, change = after - z, gradient_after - gradient
        # The pairs before a steepest-descent step led to no progress, so they are forgotten.
        moves = [torch.where(restart[:, None], 0.0, old) for old in moves] if restart.any() else moves
        moves, changes = [*moves, move][-history:], [*changes, change][-history:]
        moved = (move != 0).any(1)
        points[rows], values[rows] = after, value_after
        active = (moved | ~restart) & (value_after > tolerance)
        restart = ~moved
        z, value, gradient = after, value_after, gradient_after
        if not active.all():
            rows, z, value, gradient, restart = (part[active] for part in (rows, z, value, gradient, restart))
            moves, changes = [old[active] for old in moves], [old[active] for old in changes]
        report(1)
        if not len(rows):
            break
    return points, values


def _backtracking_line_search(
    objective: Objective,
    rows: Tensor,
    z: Tensor,
    value: Tensor,
    gradient: Tensor,
    direction: Tensor,
    slope: Tensor,
    length: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the first points that satisfy Armijo's condition, with values and gradients; else those before."""
    after, value_after, gradient_after = z.clone(), value.clone(), gradient.clone()
    searching = torch.arange(len(z), device=z.device)
    for count in TRIALS:
        factors = 0.5 ** torch.arange(count, device=z.device)
        # One row per step length, longest first, and problem that is still searching.
        each, lengths = searching.repeat_interleave(count), (length[searching, None] * factors).flatten()
        tried = z[each] + lengths[:, None] * direction[each]
        tried_value, tried_gradient = objective(tried, rows[each])
        good = (tried_value <= value[each] + ARMIJO * lengths * slope[each]).view(-1, count)
        some = good.any(1)
        # Of several ones argmax names the first, the longest step.
        chosen = (torch.arange(len(searching), device=z.device) * count + good.int().argmax(1))[some]
        places = searching[some]
        after[places], value_after[places], gradient_after[places] = (
            tried[chosen],
            tried_value[chosen],
            tried_gradient[chosen],
        )
        length = length * 0.5**count
        searching = searching[~some]
        if not len(searching):
            break
    return after, value_after, gradient_after


def _multiply_by_inverse_hessian(gradient: Tensor, moves: list[Tensor], changes: list[Tensor]) -> Tensor:
    """Return the inverse Hessian, as the last steps approximate it, times the gradient (two-loop recursion)."""
    result, kept = gradient.clone(), []
    for move, change in zip(reversed(moves), reversed(changes), strict=True):
        curvature = _row_dot_products(move, change)
        # A pair without curvature, or of a row that did not move, has no weight.
        rho = torch.where(curvature > 1e-20, 1 / curvature, torch.zeros_like(curvature))
        alpha = rho * _row_dot_products(move, result)
        result -= alpha[:, None] * change
        kept.append((move, change, rho, alpha))
    if moves:
        scale = _row_dot_products(moves[-1], changes[-1]) / _row_dot_products(changes[-1], changes[-1]).clamp(min=1e-30)
        result *= torch.where(scale > 0, scale, torch.ones_like(scale))[:, None]
    for move, change, rho, alpha in reversed(kept):
        beta = rho * _row_dot_products(change, result)
        result += (alpha - beta)[:, None] * move
    return result


def _row_dot_products(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1)

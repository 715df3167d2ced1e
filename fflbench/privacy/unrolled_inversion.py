"""Inversion of several local steps, by simulation of local training on dummy examples (Dimitrov et al., TMLR 2022)."""

import itertools

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.func import functional_call, grad, vmap

from fflbench.errors import ParameterError
from fflbench.privacy.cosine_inversion import total_variation
from fflbench.privacy.gradient_inversion import (
    CONVERGED,
    GradientFunction,
    gradient_matching_objective,
    infer_labels,
    loss_function,
    one_hot_logits,
    random_inputs,
    relative_squared_distance,
    trained_weights,
    with_frozen_weights,
)
from fflbench.privacy.lbfgs import Objective, minimise
from fflbench.privacy.reconstruction_attack import ObservedGradients, ReconstructedExamples

DECAY, DECAY_STEPS = 0.995, 10
"""Factor of Adam's rate, and the number of steps that it applies to."""


def simulated_gradient_function(observed: ObservedGradients) -> GradientFunction:
    """Return a function that gives the mean gradient behind the update of simulated local training.

    Its inputs are epochs x examples x the shape of one, in the order of each epoch, or once for all epochs;
    probabilities are examples x classes. Participants behind one update have equal parts of the examples.
    """
    local, start = observed.local, trained_weights(observed)
    if local.optimizer != "sgd":
        raise ParameterError(f"unrolled simulates local training by SGD, not by {local.optimizer}")
    each = observed.count // local.participants
    size, gradients = local.batch_size or each, grad(loss_function(observed))
    summed = local.gradients_summed(each)

    def train_one(x: Tensor, probabilities: Tensor) -> dict[str, Tensor]:
        weights, velocity = start, {name: torch.zeros_like(value) for name, value in start.items()}
        for epoch, first in itertools.product(range(local.epochs), range(0, each, size)):
            batch = slice(first, first + size)
            gradient = gradients(weights, x[min(epoch, len(x) - 1), batch], probabilities[batch])
            velocity = {name: local.momentum * velocity[name] + gradient[name] for name in start}
            weights = {name: weights[name] - local.rate * velocity[name] for name in start}
        return {name: (start[name] - weights[name]) / (local.rate * summed) for name in start}

    def mean_of_participants(x: Tensor, probabilities: Tensor) -> tuple[Tensor, ...]:
        own_x = x.view(len(x), local.participants, each, *observed.shape)
        own_probabilities = probabilities.view(local.participants, each, -1)
        updates = vmap(train_one, in_dims=(1, 0))(own_x, own_probabilities)
        return with_frozen_weights(observed, {name: value.mean(0) for name, value in updates.items()})

    return mean_of_participants


def probabilities_during_training(observed: ObservedGradients) -> Tensor | None:
    """Return average class probabilities on random inputs, of models on the way from the global to the local ones.

    They stand for those of each local step; victims x classes, or None for a single logit.
    """
    if observed.loss == "binary-cross-entropy":
        return None
    local, x = observed.local, random_inputs(observed)
    each = observed.count // local.participants
    steps, start = local.step_count(each), dict(observed.model.named_parameters())
    length = local.rate * local.gradients_summed(each)

    def probabilities(gradients: tuple[Tensor, ...], part: Tensor) -> Tensor:
        moved = zip(start.items(), gradients, strict=True)
        weights = {name: value.detach() - part * length * gradient for (name, value), gradient in moved}
        outputs: Tensor = functional_call(observed.model, weights, (x,))
        return outputs.softmax(-1).mean(0)

    with torch.no_grad():
        parts = [torch.full((), step / steps, device=x.device) for step in range(steps)]
        return torch.stack([vmap(probabilities, in_dims=(0, None))(observed.gradients, part) for part in parts]).mean(0)


def invert_unrolled(
    observed: ObservedGradients,
    steps: int,
    rate: float | None,
    smoothness: float,
    in_range: float,
    same_examples: float,
    restarts: int,
) -> ReconstructedExamples:
    """Return the best of several searches for each victim, by Adam with a rate, or else by L-BFGS.

    Where batches are smaller than a participant's data, every epoch has examples of its own in the search, since their
    order is unknown; they are matched and averaged at the end.
    """
    local, y = observed.local, infer_labels(observed, probabilities_during_training(observed))
    whole = local.batch_size is None or local.batch_size >= observed.count // local.participants
    shape = (1 if whole else local.epochs, observed.count, *observed.shape)
    size = int(np.prod(shape))

    def penalty(x: Tensor) -> Tensor:
        units = (x - observed.low) / (observed.high - observed.low).clamp(min=1e-12)
        outside = (units - units.clamp(0, 1)).square().mean((0, 1)).sum()
        return smoothness * total_variation(x) + in_range * outside + same_examples * order_invariant_distance(x)

    objective = gradient_matching_objective(
        observed, relative_squared_distance, penalty, simulated_gradient_function(observed)
    )
    logits = one_hot_logits(y, observed.classes)

    def flat_objective(z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        (by_x, _), values = objective(z.view(len(z), *shape), logits[rows], rows)
        return values, by_x.flatten(1)

    results = []
    for _ in range(restarts):
        start = observed.random_start(size)
        if rate is None:
            results.append(minimise(flat_objective, start, steps, tolerance=CONVERGED, report=observed.report))
        else:
            results.append(_minimise_by_adam(flat_objective, start, steps, rate, observed))
    best = torch.stack([values.nan_to_num(torch.inf) for _, values in results]).argmin(0)
    rows = torch.arange(observed.victim_count, device=best.device)
    x = torch.stack([z for z, _ in results])[best, rows].view(-1, *shape)
    x = torch.minimum(torch.maximum(x.nan_to_num(0.0), observed.low), observed.high)
    return ReconstructedExamples(torch.stack([mean_of_matched_epochs(each) for each in x]), y)


def order_invariant_distance(x: Tensor) -> Tensor:
    """Return the mean squared distance between epochs, each as the mean of its examples, which no order changes."""
    means = x.mean(1)
    return (means[:, None] - means[None]).square().mean()


def mean_of_matched_epochs(x: Tensor) -> Tensor:
    """Return the mean over epochs, after matching each one's examples with those of the first."""
    first, matched = x[0].flatten(1), []
    for epoch in x:
        _, order = linear_sum_assignment(torch.cdist(first, epoch.flatten(1)).square().cpu().numpy())
        matched.append(epoch[torch.from_numpy(order).to(x.device)])
    return torch.stack(matched).mean(0)


def _minimise_by_adam(
    objective: Objective, z: Tensor, steps: int, rate: float, observed: ObservedGradients
) -> tuple[Tensor, Tensor]:
    rows = torch.arange(len(z), device=z.device)
    z = z.clone().requires_grad_()
    adam = torch.optim.Adam([z], rate)
    decay = torch.optim.lr_scheduler.ExponentialLR(adam, DECAY ** (1 / DECAY_STEPS))
    for _ in range(steps):
        z.grad = objective(z.detach(), rows)[1]
        adam.step()
        decay.step()
        observed.report(1)
    return z.detach(), objective(z.detach(), rows)[0]

"""Gradient inversion: gradients of dummy examples for many victims at once, label inference, and search by L-BFGS."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.nn import functional as F

from fflbench.privacy.lbfgs import minimise
from fflbench.privacy.reconstruction_attack import ObservedGradients, ReconstructedExamples

Distance = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]
"""Distance of one victim's dummy gradients from the observed ones."""


Objective = Callable[..., tuple[tuple[Tensor, Tensor], Tensor]]
"""Objective of many victims at once: from inputs, logits of labels, and the victims' indices if not all of them, to the
gradients by both and the values.
"""
GradientFunction = Callable[[Tensor, Tensor], tuple[Tensor, ...]]
"""Gradients of one victim's inputs and class probabilities."""
ROUNDING = 0.01
"""Tolerance for rounding in a number of examples."""
RANDOM_INPUTS = 256
"""Number of random inputs by which a model's average probabilities are estimated."""
CONVERGED = 1e-12
"""Relative squared distance at which a search stops: single precision allows no less."""


def loss_function(observed: ObservedGradients) -> Callable[[dict[str, Tensor], Tensor, Tensor], Tensor]:
    """Return a function that gives the mean loss of one victim's batch, by weights, inputs and class probabilities."""
    everything = {name: value.detach() for name, value in observed.model.named_parameters()}
    fixed = {**everything, **dict(observed.model.named_buffers())}

    def loss(weights: dict[str, Tensor], x: Tensor, probabilities: Tensor) -> Tensor:
        outputs: Tensor = functional_call(observed.model, {**fixed, **weights}, (x,))
        if observed.loss == "binary-cross-entropy":
            return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), probabilities[:, 1])
        return -(probabilities * outputs.log_softmax(-1)).sum(-1).mean()

    return loss


def trained_weights(observed: ObservedGradients) -> dict[str, Tensor]:
    """Return the weights of the global model that participants train, by name."""
    return {name: value.detach() for name, value in observed.model.named_parameters() if value.requires_grad}


def with_frozen_weights(observed: ObservedGradients, by_name: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """Return one gradient per parameter: participants leave frozen ones as they are."""
    return tuple(by_name.get(name, torch.zeros_like(value)) for name, value in observed.model.named_parameters())


def gradient_function(observed: ObservedGradients) -> GradientFunction:
    """Return a function that gives the mean gradient of one victim's batch, by its inputs and class probabilities."""
    loss, weights = loss_function(observed), trained_weights(observed)

    def gradients(x: Tensor, probabilities: Tensor) -> tuple[Tensor, ...]:
        return with_frozen_weights(observed, grad(loss)(weights, x, probabilities))

    return gradients


def gradient_matching_objective(
    observed: ObservedGradients,
    distance: Distance,
    penalty: Callable[[Tensor], Tensor] = lambda x: x.new_zeros(()),
    gradient_of: GradientFunction | None = None,
) -> Objective:
    """Return the objective: the distance between the gradients of dummy examples and the observed ones."""
    gradient_of = gradient_of or gradient_function(observed)
    matched = observed.matched or (True,) * len(observed.gradients)
    observed_parts = tuple(itertools.compress(observed.gradients, matched))

    def objective(x: Tensor, logits: Tensor, target: tuple[Tensor, ...]) -> Tensor:
        gradients = gradient_of(x, logits.softmax(-1))
        return distance(tuple(itertools.compress(gradients, matched)), target) + penalty(x)

    batched = vmap(grad_and_value(objective, argnums=(0, 1)))

    def objective_of_victims(
        x: Tensor, logits: Tensor, rows: Tensor | None = None
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        target = observed_parts if rows is None else tuple(part[rows] for part in observed_parts)
        result: tuple[tuple[Tensor, Tensor], Tensor] = batched(x, logits, target)
        return result

    return objective_of_victims


def relative_squared_distance(dummy: tuple[Tensor, ...], target: tuple[Tensor, ...]) -> Tensor:
    """Return the squared Euclidean distance relative to the observed norm, so that small gradients count as much."""
    distance = torch.stack([(a - b).square().sum() for a, b in zip(dummy, target, strict=True)]).sum()
    return distance / torch.stack([b.square().sum() for b in target]).sum().clamp(min=1e-30)


def infer_labels(observed: ObservedGradients, probabilities: Tensor | None = None) -> Tensor:
    """Return the labels of each victim's examples: as known, else inferred from the last bias's gradient.

    With cross-entropy that gradient is the mean of probabilities minus one-hot labels: the one negative entry of a
    single example is its class (Zhao et al., 2020). For several, the model's probabilities on random inputs replace
    those on the victim's, and the remainder of each class is its frequency (Wainakh et al., User-level label leakage
    from gradients in federated learning, PoPETs 2022, estimate it in the same way). Of several local steps, other
    average probabilities may be given, victims x classes.
    """
    if observed.y is not None:
        return observed.y
    biases = observed.gradients[-1]
    shared = 1 if not observed.matched or observed.matched[-1] else observed.sharing
    if observed.loss == "binary-cross-entropy":
        return (biases < 0).long().expand(-1, observed.count)
    count = observed.count * shared
    # No probability is negative: a class whose entry is below zero must have examples.
    required = (-biases * count - ROUNDING).ceil().clamp(min=0)
    remaining, inferred = -biases.clone(), []
    if count > 1:
        remaining += _mean_probabilities_on_noise(observed) if probabilities is None else probabilities
    rows = torch.arange(len(remaining), device=remaining.device)
    for _ in range(count):
        chosen = (remaining + (required > 0) * count).argmax(1)
        inferred.append(chosen)
        remaining[rows, chosen] -= 1 / count
        required[rows, chosen] -= 1
    # Labels of a gradient that several victims share are divided among them in any order.
    return torch.stack(inferred, 1).view(len(remaining), shared, -1)[rows, rows % shared]


def random_inputs(observed: ObservedGradients) -> Tensor:
    """Return inputs that are uniform in the range of the data."""
    noise = torch.rand(RANDOM_INPUTS, *observed.shape, generator=observed.generator).to(observed.low.device)
    return observed.low + (observed.high - observed.low) * noise


def _mean_probabilities_on_noise(observed: ObservedGradients) -> Tensor:
    """Return the model's average class probabilities on random inputs."""
    with torch.no_grad():
        outputs: Tensor = observed.model(random_inputs(observed))
    return outputs.softmax(-1).mean(0)


def one_hot_logits(y: Tensor, classes: int) -> Tensor:
    """Return logits whose softmax is one-hot for these labels, up to single precision."""
    return F.one_hot(y, classes).float() * 100


def invert_gradients(
    observed: ObservedGradients, steps: int, restarts: int, y: Tensor | None = None
) -> ReconstructedExamples:
    """Return the best of several searches for each victim; over labels too, where none are given."""
    best: list[tuple[Tensor, Tensor, Tensor]] = []
    y = observed.y if y is None else y
    n, count, classes = observed.victim_count, observed.count, observed.classes
    size = count * int(torch.tensor(observed.shape).prod())
    objective = gradient_matching_objective(observed, relative_squared_distance)
    fixed = None if y is None else one_hot_logits(y, classes)

    def objective_of_flat_variables(z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = z[:, :size].view(len(z), count, *observed.shape)
        logits = z[:, size:].view(len(z), count, classes) if fixed is None else fixed[rows]
        (by_x, by_logits), values = objective(x, logits, rows)
        parts = [by_x.flatten(1)] + ([by_logits.flatten(1)] if fixed is None else [])
        return values, torch.cat(parts, 1)

    for _ in range(restarts):
        start = observed.random_start(size + (count * classes if fixed is None else 0))
        z, values = minimise(objective_of_flat_variables, start, steps, tolerance=CONVERGED, report=observed.report)
        inferred = z[:, size:].view(n, count, classes).argmax(-1) if y is None else y
        best.append((values.nan_to_num(torch.inf), z[:, :size].view(n, count, *observed.shape), inferred))
    chosen = torch.stack([values for values, _, _ in best]).argmin(0)
    rows = torch.arange(n, device=chosen.device)
    return ReconstructedExamples(
        torch.stack([x for _, x, _ in best])[chosen, rows], torch.stack([y for _, _, y in best])[chosen, rows]
    )

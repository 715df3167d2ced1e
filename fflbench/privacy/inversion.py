"""Common parts of gradient inversions: gradients of dummy examples for many victims at once, and label inference."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, grad, grad_and_value, vmap
from torch.nn import functional as F

from fflbench.privacy.attack import Guess, Observed
from fflbench.privacy.lbfgs import minimise

Distance = Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], Tensor]
"""Distance of one victim's dummy gradients from the observed ones."""


Objective = Callable[..., tuple[tuple[Tensor, Tensor], Tensor]]
"""Objective of many victims at once: from inputs, logits of labels, and the victims' indices if not all of them, to the
gradients by both and the values.
"""
CERTAIN = 0.01
"""Tolerance for rounding in a number of examples."""
NOISE = 256
"""Number of random inputs by which a model's average probabilities are estimated."""
ENOUGH = 1e-12
"""Share of a gradient's squared norm that may remain unexplained: single precision allows no less."""


def gradients_of(observed: Observed) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]]:
    """Return a function that gives the mean gradient of one victim's batch, by its inputs and class probabilities."""
    names = [name for name, _ in observed.model.named_parameters()]
    weights = {name: value.detach() for name, value in observed.model.named_parameters()}
    buffers = dict(observed.model.named_buffers())

    def loss(weights: dict[str, Tensor], x: Tensor, probabilities: Tensor) -> Tensor:
        outputs: Tensor = functional_call(observed.model, {**weights, **buffers}, (x,))
        if observed.loss == "binary-cross-entropy":
            return F.binary_cross_entropy_with_logits(outputs.squeeze(-1), probabilities[:, 1])
        return -(probabilities * outputs.log_softmax(-1)).sum(-1).mean()

    def gradients(x: Tensor, probabilities: Tensor) -> tuple[Tensor, ...]:
        by_name = grad(loss)(weights, x, probabilities)
        return tuple(by_name[name] for name in names)

    return gradients


def matching(
    observed: Observed, distance: Distance, penalty: Callable[[Tensor], Tensor] = lambda x: x.new_zeros(())
) -> Objective:
    """Return the objective: the distance between the gradients of dummy examples and the observed ones."""
    made = gradients_of(observed)
    matched = observed.matched or (True,) * len(observed.gradients)
    seen = tuple(itertools.compress(observed.gradients, matched))

    def objective(x: Tensor, logits: Tensor, wanted: tuple[Tensor, ...]) -> Tensor:
        gradients = made(x, logits.softmax(-1))
        return distance(tuple(itertools.compress(gradients, matched)), wanted) + penalty(x)

    batched = vmap(grad_and_value(objective, argnums=(0, 1)))

    def of_victims(x: Tensor, logits: Tensor, rows: Tensor | None = None) -> tuple[tuple[Tensor, Tensor], Tensor]:
        wanted = seen if rows is None else tuple(part[rows] for part in seen)
        result: tuple[tuple[Tensor, Tensor], Tensor] = batched(x, logits, wanted)
        return result

    return of_victims


def squared(made: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> Tensor:
    """Return the squared Euclidean distance relative to the observed norm, so that small gradients count as much."""
    apart = torch.stack([(a - b).square().sum() for a, b in zip(made, wanted, strict=True)]).sum()
    return apart / torch.stack([b.square().sum() for b in wanted]).sum().clamp(min=1e-30)


def labels(observed: Observed) -> Tensor:
    """Return the labels of each victim's examples: as known, else inferred from the last bias's gradient.

    With cross-entropy that gradient is the mean of probabilities minus one-hot labels: the one negative entry of a
    single example is its class (Zhao et al., 2020). For several, the model's probabilities on random inputs replace
    those on the victim's, and the remainder of each class is its frequency (Wainakh et al., User-level label leakage
    from gradients in federated learning, PoPETs 2022, estimate it in the same way).
    """
    if observed.y is not None:
        return observed.y
    biases = observed.gradients[-1]
    shared = 1 if not observed.matched or observed.matched[-1] else observed.sharing
    if observed.loss == "binary-cross-entropy":
        return (biases < 0).long().expand(-1, observed.count)
    count = observed.count * shared
    # No probability is negative: a class whose entry is below zero must have examples.
    needed = (-biases * count - CERTAIN).ceil().clamp(min=0)
    left, inferred = -biases.clone(), []
    if count > 1:
        left += _usual_probabilities(observed)
    rows = torch.arange(len(left), device=left.device)
    for _ in range(count):
        chosen = (left + (needed > 0) * count).argmax(1)
        inferred.append(chosen)
        left[rows, chosen] -= 1 / count
        needed[rows, chosen] -= 1
    # Of a gradient that several victims share, each is given its part, in any order.
    return torch.stack(inferred, 1).view(len(left), shared, -1)[rows, rows % shared]


def _usual_probabilities(observed: Observed) -> Tensor:
    """Return the model's average class probabilities on random inputs."""
    made = torch.rand(NOISE, *observed.shape, generator=observed.generator).to(observed.low.device)
    with torch.no_grad():
        outputs: Tensor = observed.model(observed.low + (observed.high - observed.low) * made)
    return outputs.softmax(-1).mean(0)


def logits_of(y: Tensor, classes: int) -> Tensor:
    """Return logits whose softmax is one-hot for these labels, up to single precision."""
    return F.one_hot(y, classes).float() * 100


def invert(observed: Observed, steps: int, restarts: int, y: Tensor | None = None) -> Guess:
    """Return the best of several searches for each victim; over labels too, where none are given."""
    best: list[tuple[Tensor, Tensor, Tensor]] = []
    y = observed.y if y is None else y
    n, count, classes = observed.victims, observed.count, observed.classes
    size = count * int(torch.tensor(observed.shape).prod())
    objective = matching(observed, squared)
    fixed = None if y is None else logits_of(y, classes)

    def of_flat(z: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        x = z[:, :size].view(len(z), count, *observed.shape)
        logits = z[:, size:].view(len(z), count, classes) if fixed is None else fixed[rows]
        (by_x, by_logits), values = objective(x, logits, rows)
        parts = [by_x.flatten(1)] + ([by_logits.flatten(1)] if fixed is None else [])
        return values, torch.cat(parts, 1)

    for _ in range(restarts):
        start = observed.start(size + (count * classes if fixed is None else 0))
        z, values = minimise(of_flat, start, steps, enough=ENOUGH, report=observed.report)
        inferred = z[:, size:].view(n, count, classes).argmax(-1) if y is None else y
        best.append((values.nan_to_num(torch.inf), z[:, :size].view(n, count, *observed.shape), inferred))
    chosen = torch.stack([values for values, _, _ in best]).argmin(0)
    rows = torch.arange(n, device=chosen.device)
    return Guess(torch.stack([x for _, x, _ in best])[chosen, rows], torch.stack([y for _, _, y in best])[chosen, rows])

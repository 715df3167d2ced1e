"""Definition of CAF (Allouah et al., Towards trustworthy federated learning with untrusted participants, ICML 2025)."""

import numpy as np

from fflbench.references.coordinatewise import fedavg
from fflbench.references.krum import TIED
from fflbench.references.reference import Answer, Reference, Rows, Variant

STEPS = 60
"""Steps after which a variant is given up that may not come to an end."""


def caf(rows: Rows, f: int) -> list[Answer]:
    """Return the weighted mean whose covariance has the least top eigenvalue (algorithm 2).

    There is no answer where eigenvectors, or the choice of a mean, are open.
    """
    steps = filter_steps(rows, f)
    if steps is None:
        return []
    eigenvalues = [eigenvalue for eigenvalue, _ in steps]
    edge = min(eigenvalues)
    return [mu for eigenvalue, mu in steps if eigenvalue - edge <= TIED * edge]


def filter_steps(rows: Rows, f: int, *, removed_count: bool = False) -> list[tuple[float, Answer]] | None:
    """Return the top eigenvalue and the mean of every step; None where an eigenvector is open."""
    n, weights = len(rows), [1.0] * len(rows)
    steps: list[tuple[float, Answer]] = []
    if f == 0:
        return [(0.0, fedavg(rows, weights)[0])]
    while sum(weights) > n - 2 * f and len(steps) < STEPS:
        mu = fedavg(rows, weights)[0]
        deviations = np.array([[value - middle for value, middle in zip(row, mu, strict=True)] for row in rows])
        scaled = deviations * np.sqrt(np.array(weights) / sum(weights))[:, None]
        _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
        steps.append((float(singular[0]) ** 2, mu))
        if singular[0] == 0:
            break
        if len(singular) > 1 and singular[0] - singular[1] <= TIED * singular[0]:
            return None
        along = np.abs(deviations @ directions[0])
        largest = max(value for value, weight in zip(along, weights, strict=True) if weight > 0 or removed_count)
        weights = [
            max(0.0, weight * (1 - float(value / largest) ** 2)) for value, weight in zip(along, weights, strict=True)
        ]
    return steps


def _last(rows: Rows, f: int) -> list[Answer]:
    steps = filter_steps(rows, f)
    return [] if steps is None else [steps[-1][1]]


def _removed_count(rows: Rows, f: int) -> list[Answer]:
    steps = filter_steps(rows, f, removed_count=True)
    return [] if steps is None else [min(steps, key=lambda step: step[0])[1]]


CAF = Reference(
    "caf",
    "Allouah et al., Towards trustworthy federated learning with untrusted participants, ICML 2025, algorithm 2",
    caf,
    (
        Variant(
            ("mean: yours looks like that of the last step, the paper's is the one with the least top eigenvalue",),
            _last,
        ),
        Variant(
            ("maximum: yours looks like it counts rows without weight, ours is over rows with weight",),
            _removed_count,
        ),
    ),
    lambda n: (n - 1) // 2,
    fewest_rows=3,
    # Eigenvectors change steeply where eigenvalues are near each other.
    tolerance=1e-4,
)

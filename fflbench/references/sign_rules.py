"""Definitions of rules that count signs: the robust learning rate and the majority vote of signSGD."""

import math
from collections.abc import Sequence
from statistics import median

from fflbench.references.coordinatewise import fedavg
from fflbench.references.reference import Answer, Reference, Rows, Variant


def sign(value: float) -> int:
    """Return 1, 0 or -1."""
    return (value > 0) - (value < 0)


def votes(rows: Rows) -> list[int]:
    """Return the sum of signs of every column."""
    return [sum(map(sign, column)) for column in zip(*rows, strict=True)]


def robust_learning_rate(rows: Rows, theta: float = 4.0, weights: Sequence[float] | None = None) -> list[Answer]:
    """Average rows by examples and reverse the columns in which the sum of signs is below the threshold (eq. 1)."""
    average = fedavg(rows, weights)[0]
    return [[a if abs(vote) >= theta else -a for a, vote in zip(average, votes(rows), strict=True)]]


def _zeroed(rows: Rows, theta: float = 4.0, weights: Sequence[float] | None = None) -> list[Answer]:
    average = fedavg(rows, weights)[0]
    return [[a if abs(vote) >= theta else 0.0 for a, vote in zip(average, votes(rows), strict=True)]]


def _strict(rows: Rows, theta: float = 4.0, weights: Sequence[float] | None = None) -> list[Answer]:
    average = fedavg(rows, weights)[0]
    return [[a if abs(vote) > theta else -a for a, vote in zip(average, votes(rows), strict=True)]]


def sign_majority(rows: Rows, step: float | None = None) -> list[Answer]:
    """Step in the direction of most signs (algorithm 1); by default as far as the median row does."""
    return [_steps(rows, step, votes(rows))]


def _steps(rows: Rows, step: float | None, directions: Sequence[float]) -> Answer:
    if step is None:
        step = median(math.fsum(map(abs, row)) / len(row) for row in rows)
    return [step * sign(direction) for direction in directions]


ROBUST_LEARNING_RATE = Reference(
    "robust-learning-rate",
    "Ozdayi et al., Defending against backdoors in federated learning with robust learning rate, AAAI 2021",
    robust_learning_rate,
    (
        Variant(
            ("threshold: yours looks like disputed columns are set to 0, the paper reverses them",),
            _zeroed,
        ),
        Variant(
            ("threshold: yours looks like sums of signs must exceed it, the paper's must reach it",),
            _strict,
        ),
        Variant(
            ("weights: yours looks like all rows count alike, the paper weighs them by numbers of examples",),
            lambda rows, theta=4.0, weights=None: robust_learning_rate(rows, theta),
        ),
    ),
    parameters={
        "theta": lambda n: 2.0 + n % 3,
        "weights": lambda n: [float(1 + 3 * k % 7) for k in range(n)],
    },
    linear=True,
    squares=False,
)
SIGN_MAJORITY = Reference(
    "sign-majority",
    "Bernstein et al., signSGD with majority vote is communication efficient and fault tolerant, ICLR 2019; the step "
    "is fflbench's where none is given",
    sign_majority,
    (
        Variant(
            ("vote: yours looks like the sign of the mean of all rows, the paper's is that of the sum of signs",),
            lambda rows, step=None: [_steps(rows, step, fedavg(rows)[0])],
        ),
    ),
    parameters={"step": lambda n: (0.1, 1.0, 3.0)[n % 3]},
    squares=False,
)

"""Definition of FoolsGold (Fung et al., The limitations of federated learning in sybil settings, RAID 2020)."""

import math
from collections.abc import Sequence

from fflbench.references.coordinatewise import fedavg
from fflbench.references.reference import Answer, Reference, Rows, UndefinedError, Variant

ROUNDING = 1e-12
"""Distance from 1 within which a cosine counts as 1, since weights are relative to the largest such distance."""


def foolsgold(rows: Rows, kappa: float = 1.0) -> list[Answer]:
    """Average the rows of a first round by their weights; there is no answer where all weights are zero."""
    weights = foolsgold_weights(rows, kappa)
    return fedavg(rows, weights) if any(weights) else []


def foolsgold_weights(histories: Rows, kappa: float = 1.0, *, pardon: bool = True) -> list[float]:
    """Return the weight of every participant's updates, summed over all rounds (algorithm 1)."""
    if not kappa > 0:
        raise UndefinedError("kappa must be above 0")
    n = len(histories)
    if n == 1:
        return [1.0]
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    similar = {(i, j): cosine(histories[i], histories[j]) for i, j in pairs}
    # The authors' code has zeros on the diagonal, so that no maximum is negative.
    most = [max(0.0, *(similar[i, j] for j in range(n) if j != i)) for i in range(n)]
    for i, j in pairs:
        if pardon and most[j] > most[i]:
            similar[i, j] *= most[i] / most[j]
    alpha = [min(1.0, max(0.0, 1 - max(similar[i, j] for j in range(n) if j != i))) for i in range(n)]
    largest = max(alpha)
    if largest == 0:
        return [0.0] * n
    return [min(1.0, max(0.0, kappa * (_logit(each / largest) + 0.5))) for each in alpha]


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 where one of them is zero."""
    lengths = math.hypot(*a) * math.hypot(*b)
    value = math.fsum(map(math.prod, zip(a, b, strict=True))) / lengths if lengths else 0.0
    return 1.0 if value > 1 - ROUNDING else value


def _logit(share: float) -> float:
    return math.inf if share == 1 else -math.inf if share == 0 else math.log(share / (1 - share))


def _without_pardoning(rows: Rows, kappa: float = 1.0) -> list[Answer]:
    weights = foolsgold_weights(rows, kappa, pardon=False)
    return fedavg(rows, weights) if any(weights) else []


def _weighted_sum(rows: Rows, weights: Sequence[float], divisor: float) -> list[Answer]:
    total = math.fsum(weights)
    return [[value * total / divisor for value in fedavg(rows, weights)[0]]] if total else []


FOOLSGOLD = Reference(
    "foolsgold",
    "Fung et al., The limitations of federated learning in sybil settings, RAID 2020, algorithm 1, but divided by the "
    "sum of the weights",
    foolsgold,
    (
        Variant(
            ("pardoning: yours looks like it has none, the paper rescales similarities by the ratio of their maxima",),
            _without_pardoning,
        ),
        Variant(
            ("divisor: yours looks like n, ours divides weighted rows by the sum of the weights",),
            lambda rows, kappa=1.0: _weighted_sum(rows, foolsgold_weights(rows, kappa), len(rows)),
        ),
    ),
    accepted=(
        Variant(
            ("weighted rows are added up, as in the authors' code; fflbench divides by the sum of the weights",),
            lambda rows, kappa=1.0: _weighted_sum(rows, foolsgold_weights(rows, kappa), 1),
        ),
    ),
    parameters={"kappa": lambda n: (0.5, 1.0, 2.0)[n % 3]},
    fewest_rows=3,
    linear=True,
    # Weights change steeply where a cosine is nearly 1.
    tolerance=1e-3,
)

"""Definition of the reputation rule (Jebreel et al., fragmented federated learning, IEEE TNNLS 2022)."""

import math
from collections.abc import Sequence
from statistics import median

from fflbench.references.coordinatewise import fedavg
from fflbench.references.foolsgold import cosine
from fflbench.references.reference import Answer, Reference, Rows, UndefinedError, Variant


def quartile(values: Sequence[float]) -> float:
    """Return the first quartile, linear between order statistics."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * 0.25
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def similarity_scores(rows: Rows, last_layer: slice = slice(None), alpha: float = 0.2) -> list[float]:
    """Return every row's similarity to the others (the paper's "Compute similarity", step by step)."""
    magnitudes = [math.hypot(*map(float, row)) for row in rows]
    distances = [abs(median(magnitudes) - magnitude) for magnitude in magnitudes]
    closeness = [1 - distance / max(distances) if max(distances) else 1.0 for distance in distances]
    last = [list(map(float, row[last_layer])) for row in rows]
    middle = [median(column) for column in zip(*last, strict=True)]
    directions = [(cosine(row, middle) + 1) / 2 for row in last]
    return [alpha * c + (1 - alpha) * d for c, d in zip(closeness, directions, strict=True)]


def trust(reputations: Sequence[float]) -> list[float]:
    """Return the trust that follows from all participants' reputations."""
    return [max(math.tanh(each - quartile(reputations)), 0.0) for each in reputations]


def reputation(rows: Rows, alpha: float = 0.2) -> list[Answer]:
    """Average the rows of a first round, sent by everybody, by trust; alike where nobody is trusted."""
    if not 0 <= alpha <= 1:
        raise UndefinedError("alpha must be from 0 to 1")
    scores = similarity_scores(rows, alpha=alpha)
    trusts = trust([score - quartile(scores) for score in scores])
    return fedavg(rows, trusts if any(trusts) else None)


REPUTATION = Reference(
    "reputation",
    "Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022, protocol 1",
    reputation,
    (
        Variant(
            ("weights: yours looks like the scores themselves, the paper's are trusts: tanh beyond the quartile",),
            lambda rows, alpha=0.2: fedavg(rows, similarity_scores(rows, alpha=alpha)),
        ),
    ),
    parameters={"alpha": lambda n: (0.2, 0.5, 0.8)[n % 3]},
    fewest_rows=3,
    linear=True,
    tolerance=1e-3,
)

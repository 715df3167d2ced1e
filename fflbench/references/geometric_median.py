"""Definitions of the geometric median and of RFA."""

import math
from collections.abc import Sequence

from fflbench.references.coordinatewise import fedavg, median
from fflbench.references.krum import lowest
from fflbench.references.reference import Answer, Reference, Rows, UndefinedError, Variant

STEPS = 3000
"""Most steps of Weiszfeld's algorithm towards the geometric median."""


def geometric_median(rows: Rows) -> list[Answer]:
    """Return the point with the least sum of distances; none where there are several such points."""
    optimal = {tuple(row) for row in rows if _pull(rows, row) <= rows.count(row) * (1 + 1e-9)}
    if optimal:
        return [list(row) for row in optimal] if len(optimal) == 1 else []
    point = median(rows)[0]
    for _ in range(STEPS):
        distances = [math.dist(point, row) for row in rows]
        # A row that is not the median is left half-way.
        stay = 0.5 if min(distances) == 0 else 0.0
        target = fedavg(rows, [1 / each if each else 0.0 for each in distances])[0]
        moved = [stay * here + (1 - stay) * there for here, there in zip(point, target, strict=True)]
        if math.dist(moved, point) <= 1e-11 * sorted(distances)[len(rows) // 2]:
            break
        point = moved
    return [moved]


def _pull(rows: Rows, point: Sequence[float]) -> float:
    """Return the length of the sum of the unit vectors from a point to all rows elsewhere."""
    others = [(row, math.dist(row, point)) for row in rows if row != point]
    sums = (math.fsum((row[i] - here) / distance for row, distance in others) for i, here in enumerate(point))
    return math.hypot(*sums)


def rfa(rows: Rows, weights: Sequence[float] | None = None, iterations: int = 3, nu: float = 1e-6) -> list[Answer]:
    """Take some steps of the smoothed Weiszfeld algorithm from the weighted mean."""
    if not (iterations >= 1 and nu > 0):
        raise UndefinedError("there must be at least 1 iteration and a nu above 0")
    alpha = [1.0] * len(rows) if weights is None else list(map(float, weights))
    return [_smoothed_weiszfeld(rows, fedavg(rows, alpha)[0], alpha, iterations, nu)]


def _smoothed_weiszfeld(rows: Rows, start: Answer, alpha: Sequence[float], iterations: int, nu: float) -> Answer:
    point = start
    for _ in range(iterations):
        point = fedavg(rows, [each / max(nu, math.dist(point, row)) for each, row in zip(alpha, rows, strict=True)])[0]
    return point


def _authors_code(rows: Rows, weights: Sequence[float] | None = None) -> list[Answer]:
    alpha = [1.0] * len(rows) if weights is None else list(map(float, weights))
    point = fedavg(rows, alpha)[0]
    for _ in range(4):
        before = _objective(rows, point, alpha)
        point = _smoothed_weiszfeld(rows, point, alpha, 1, 1e-5)
        after = _objective(rows, point, alpha)
        if abs(before - after) < 1e-6 * after:
            break
    return [point]


def _objective(rows: Rows, point: Answer, alpha: Sequence[float]) -> float:
    return math.fsum(each * math.dist(point, row) for each, row in zip(alpha, rows, strict=True))


def _from_zero(iterations: int, nu: float, wanted: str) -> Variant:
    return Variant(
        (f"steps: yours looks like {iterations} from zero with a smoothing of {nu:g}, {wanted}",),
        lambda rows, weights=None: [_smoothed_weiszfeld(rows, [0.0] * len(rows[0]), [1.0] * len(rows), iterations, nu)],
    )


MEDIAN_ITSELF = "the definition is the median itself"
FROM_MEAN = "the paper takes 3 from the weighted mean with 1e-06"

GEOMETRIC_MEDIAN = Reference(
    "geometric-median",
    "Chen et al., Distributed statistical machine learning in adversarial settings, POMACS 2017",
    geometric_median,
    (
        _from_zero(3, 0.1, MEDIAN_ITSELF),
        _from_zero(3, 1e-6, MEDIAN_ITSELF),
        _from_zero(8, 0.1, MEDIAN_ITSELF),
        Variant(
            (f"steps: yours looks like 3 from the mean with a smoothing of 1e-06 (RFA), {MEDIAN_ITSELF}",),
            lambda rows: rfa(rows),
        ),
        Variant(
            ("points: yours looks like the best of the rows (medoid), the definition takes the best of all points",),
            lambda rows: [
                list(rows[k])
                for (k,) in lowest([math.fsum(math.dist(row, other) for other in rows) for row in rows], 1)
            ],
        ),
    ),
    fewest_rows=3,
)
RFA = Reference(
    "rfa",
    "Pillutla et al., Robust aggregation for federated learning, IEEE Transactions on Signal Processing 2022",
    rfa,
    (
        _from_zero(3, 0.1, FROM_MEAN),
        _from_zero(3, 1e-6, FROM_MEAN),
        _from_zero(8, 0.1, FROM_MEAN),
        Variant(
            ("weights: yours looks like all rows count alike, the paper weighs them by numbers of examples",),
            lambda rows, weights=None: rfa(rows),
        ),
    ),
    accepted=(
        Variant(
            ("at most 4 steps with a smoothing of 1e-05, as in the authors' first code; fflbench takes the paper's 3",),
            _authors_code,
        ),
    ),
    parameters={"weights": lambda n: [float(1 + 3 * k % 7) for k in range(n)]},
    fewest_rows=3,
    linear=True,
)

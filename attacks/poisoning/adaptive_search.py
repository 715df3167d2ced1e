"""Adaptive search: the most harmful of many crafted updates, by simulation of the defense.

An attack of this benchmark, in the manner of Shejwalkar and Houmansadr (Manipulating the Byzantine, NDSS 2021), who
search for a strength along one direction, and of Carlini et al. (On evaluating adversarial robustness, 2019): a
defense is judged by the strongest attack that is adapted to it.
"""

from collections.abc import Callable, Mapping
from itertools import islice, product
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Attack, Known, Matrix, Vector, attack, finite_rows, gram

from ._crafted_rows import (
    LARGEST,
    Numbers,
    deviation_of_rows,
    distances_to_mean,
    in_single_precision,
    known_rows,
    last_global_change,
    mean_of_rows,
)
from ._line_search import NO_HARM, line_search

DIRECTIONS = ("mean", "sign", "std", "last aggregate", "principal component")
"""Directions, each against the honest mean, the principal component by its sign."""
SHAPES = ("copies", "spread", "half decoys")
"""All attackers send one row; rows that differ by noise whose mean is zero; half of them send their honest updates."""
COARSE = (1.0, 4.0)
"""Strengths at which all directions and shapes are tried, in units of the honest updates' distance from their mean."""

Part: TypeAlias = tuple[str, str]
"""A direction and a shape."""


@attack(
    "adaptive-search",
    title="Adaptive search",
    knows=["own data", "attackers' updates", "honest updates", "defense"],
)
class AdaptiveSearch(Attack):
    r"""Send those of many crafted updates after which the model has the highest loss on the attackers' own examples.

    $$ \mu + s\, r\, (u + z_k), \qquad r^2 = \frac{1}{n-m} \sum_i \lVert x_i - \mu \rVert^2 $$

    with the mean $\mu$ of the honest updates, a strength s, and a direction u of length 1 against their mean, its
    signs, their standard deviations, the last change of the global model, or their principal component. Attackers send
    copies ($z_k = 0$), rows spread by noise that cancels out and makes their displacements orthogonal to each other, or
    copies from half of them and honest updates from the others. All of these are tried at two strengths, then the
    strength of the best by doubling and bisection; the best of the last round is tried as well. Where the server would
    keep its model, there is no harm. Buffers stay as trained.
    """

    calls: Annotated[int, Ge(1), "aggregates that are simulated in a round, at most"] = 40

    @property
    def simulations_per_round(self) -> int:
        return self.calls

    def poison_updates(self, known: Known) -> Matrix:
        change = last_global_change(self.memory, known)
        honest = known_rows(known)
        crafted = CraftedRows(known, honest, change) if finite_rows(honest).all() else None
        if not crafted or not crafted.directions:
            return known.updates
        part, strength = self._search(crafted, lambda rows: harm(known, rows))
        self.memory["best"] = np.array([DIRECTIONS.index(part[0]), SHAPES.index(part[1]), strength])
        return crafted(part, strength)

    def _search(self, crafted: "CraftedRows", harm_of: Callable[[Matrix], float]) -> tuple[Part, float]:
        """Return the most harmful part and strength among those that at most `calls` simulations try."""
        coarse = [(part, strength) for strength in COARSE for part in product(crafted.directions, SHAPES)]
        tried = [*self._last_best(crafted), *coarse]
        found = {each: harm_of(crafted(*each)) for each in islice(dict.fromkeys(tried), self.calls)}
        (part, start), value = max(found.items(), key=lambda item: item[1])
        best = line_search(
            lambda strength: harm_of(crafted(part, strength)),
            self.calls - len(found),
            start=start,
            step=start,
            value=value,
        )
        return part, best

    def _last_best(self, crafted: "CraftedRows") -> list[tuple[Part, float]]:
        """Return the part and strength of the last round, if any and if they can be crafted again."""
        if "best" not in self.memory:
            return []
        direction, shape, strength = self.memory["best"]
        part = DIRECTIONS[int(direction)], SHAPES[int(shape)]
        return [(part, float(strength))] if part[0] in crafted.directions else []


class CraftedRows:
    """Rows of the attackers by direction, shape and strength."""

    def __init__(self, known: Known, honest: Matrix, last_change: Vector) -> None:
        self.known, self.mean = known, mean_of_rows(honest)
        products = gram(honest)
        self.unit = float(np.sqrt(distances_to_mean(products).mean())) or 1.0
        self.directions = unit_directions(honest, self.mean, products, last_change)
        self.noise = cancelling_noise(known)

    def __call__(self, part: Part, strength: float) -> Matrix:
        """Return the rows of all attackers."""
        direction, shape = part
        rows, size = self.known.updates.copy(), strength * self.unit
        attacking = rows[len(rows) // 2 if shape == "half decoys" else 0 :, self.known.columns.parameters]
        attacking[:] = in_single_precision(self.mean + size * self.directions[direction])
        if shape == "spread":
            with np.errstate(over="ignore"):
                attacking += np.float32(min(size, float(LARGEST))) * self.noise
            np.clip(attacking, -LARGEST, LARGEST, out=attacking)
        return rows


def unit_directions(honest: Matrix, mean: Numbers, products: Numbers, last_change: Vector) -> Mapping[str, Numbers]:
    """Return the directions of length 1, without those that are zero."""
    centring = np.eye(len(honest)) - 1 / len(honest)
    top = np.linalg.eigh(centring @ products @ centring)[1][:, -1]
    with np.errstate(over="ignore", invalid="ignore"):
        component = ((centring @ top).astype(np.float32) @ honest).astype(np.float64)
        component *= -1 if component @ mean > 0 else 1
        vectors = -mean, -np.sign(mean), -deviation_of_rows(honest), -last_change.astype(np.float64), component
        lengths = [float(np.linalg.norm(vector)) for vector in vectors]
    named = zip(DIRECTIONS, vectors, lengths, strict=True)
    return {name: vector / length for name, vector, length in named if 0 < length < np.inf}


def cancelling_noise(known: Known) -> Matrix:
    r"""Return noise for each attacker with mean zero, of which displacements $u + z_k$ are about orthogonal.

    With m rows of noise that add up to zero, the cosine of two of them is $-1/(m-1)$: that of the displacements is zero
    where noise is $\sqrt{m-1}$ times as long as the direction.
    """
    count, width = len(known.updates), known.columns.parameters.stop
    noise = known.rng.standard_normal((count, width), np.float32)
    noise -= noise.mean(0)
    noise *= np.float32(np.sqrt(count / max(width, 1)))
    return noise


def harm(known: Known, rows: Matrix) -> float:
    """Return the loss of the global model after a round with these rows, on the attackers' own examples."""
    change = known.simulate(rows)
    if change is None:
        return NO_HARM
    loss = known.loss(known.weights + change)
    return float("inf") if np.isnan(loss) else loss

"""Base class of property-inference attacks, and the knowledge of the server that runs them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fflbench.privacy.reconstruction_attack import CuriousServer
from fflbench.types import Indices, Matrix

if TYPE_CHECKING:
    from fflbench.privacy.shadow_rounds import ShadowObservation, ShadowRounds

PropertyLabels = list[list[bool]]
"""Whether each participant's data has the property, by round and participant."""


@dataclass(frozen=True)
class PropertyObserver:
    """Knowledge and abilities of a curious server: data like the victims', and simulated rounds."""

    parameters: slice
    """Columns that are parameters, not buffers."""
    participants: int
    """Number of participants in a round."""
    rng: np.random.Generator
    """Random numbers of the attack."""
    shadows: "ShadowRounds"
    """Rounds to simulate; see `simulate_rounds`."""
    draw_examples: "DrawExamples"
    """Function that draws a participant's examples, with the property or without."""

    def simulate_rounds(
        self, labels: PropertyLabels, *, without_defense: bool = False
    ) -> "Iterator[ShadowObservation]":
        """Simulate rounds of participants with and without the property under the same defense, and yield observations.

        With `without_defense`, updates are observed one by one, as if there were no defense.
        """
        examples = [[self.draw_examples(has, self.rng) for has in of_round] for of_round in labels]
        return self.shadows.run(examples, "rehearsal", without_defense=without_defense)


DrawExamples = Callable[[bool, np.random.Generator], Indices]
"""Function that draws a participant's examples, with the property or without."""


@dataclass(kw_only=True)
class PropertyAttack(CuriousServer):
    """Attack by a curious server that scores participants by a property of their data."""

    def prepare(self, observer: PropertyObserver) -> None:
        """Prepare the attack, before any update is observed."""

    def score(self, updates: Matrix) -> npt.NDArray[np.float64]:
        """Return one score per row: the higher, the likelier that the data behind it has the property."""
        raise NotImplementedError


def random_property_labels(rounds: int, participants: int, rng: np.random.Generator) -> PropertyLabels:
    """Return independent fair labels: the properties of other participants reveal nothing about the last."""
    labels: PropertyLabels = rng.integers(2, size=(rounds, participants)).astype(bool).tolist()
    return labels

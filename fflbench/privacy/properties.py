"""Base class of property-inference attacks, and what a curious server knows and can do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fflbench.privacy.attack import CuriousServer
from fflbench.types import Indices, Matrix

if TYPE_CHECKING:
    from fflbench.privacy.shadow_rounds import ShadowObservation, ShadowRounds

Having = list[list[bool]]
"""Whether each participant's data has the property, by round."""


@dataclass(frozen=True)
class Informed:
    """Knowledge and abilities of a curious server: data like the victims', and simulated rounds."""

    parameters: slice
    """Columns that are parameters, not buffers."""
    people: int
    """Number of participants in a round."""
    rng: np.random.Generator
    stage: "ShadowRounds"
    make: "Make"

    def rehearse(self, having: Having, *, plain: bool = False) -> "Iterator[ShadowObservation]":
        """Simulate rounds of participants with or without the property behind the same defense, and observe them alike.

        With `plain`, updates are observed one by one, as if there were no defense.
        """
        groups = [[self.make(has, self.rng) for has in group] for group in having]
        return self.stage.play(groups, "rehearsal", plain=plain)


Make = Callable[[bool, np.random.Generator], Indices]
"""Function that draws a participant's examples, with the property or without."""


@dataclass(kw_only=True)
class PropertyAttack(CuriousServer):
    """Attack by a curious server that scores participants' data as a whole."""

    def prepare(self, informed: Informed) -> None:
        """Prepare the attack, before any update is seen."""

    def judge(self, updates: Matrix) -> npt.NDArray[np.float64]:
        """Return one score per row: the higher, the likelier that the data behind it has the property."""
        raise NotImplementedError


def coins(groups: int, people: int, rng: np.random.Generator) -> Having:
    """Return independent fair coins for all participants: knowing the others' property says nothing about the last."""
    thrown: Having = rng.integers(2, size=(groups, people)).astype(bool).tolist()
    return thrown

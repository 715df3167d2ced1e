"""Whether a curious server can tell what is true of somebody's data as a whole."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fflbench.privacy.attack import CuriousServer
from fflbench.types import Indices, Matrix

if TYPE_CHECKING:
    from fflbench.privacy.stage import Sight, Stage

Having = list[list[bool]]
"""For each round, and each who takes part in it, whether that one's data has the property."""


@dataclass(frozen=True)
class Informed:
    """What a curious server has that asks for a property: data like the victims', and rounds of its own."""

    parameters: slice
    """The columns that are no buffers."""
    people: int
    """Who take part in a round."""
    rng: np.random.Generator
    stage: "Stage"
    make: "Make"

    def rehearse(self, having: Having, *, plain: bool = False) -> "Iterator[Sight]":
        """Play rounds with made-up people, with the property or without, behind the same defense; look the same way.

        Plain: look at their updates one by one, as if there were no defense.
        """
        groups = [[self.make(has, self.rng) for has in group] for group in having]
        return self.stage.play(groups, "rehearsal", plain=plain)


Make = Callable[[bool, np.random.Generator], Indices]
"""Examples for somebody, with the property or without."""


@dataclass(kw_only=True)
class PropertyAttack(CuriousServer):
    """A curious server that judges people's data as a whole."""

    def prepare(self, informed: Informed) -> None:
        """Get ready, before any update is seen."""

    def judge(self, updates: Matrix) -> npt.NDArray[np.float64]:
        """A score for each row: the higher, the likelier that the data behind it has the property."""
        raise NotImplementedError


def coins(groups: int, people: int, rng: np.random.Generator) -> Having:
    """Everybody has the property or not, as a coin falls: one who knows of the others knows nothing of the last."""
    thrown: Having = rng.integers(2, size=(groups, people)).astype(bool).tolist()
    return thrown

"""Contract of attacks by a curious participant on its partner's update, from the messages of their exchange."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fflbench.crypto.pads import Mask, Words

BITS = 32


@dataclass(frozen=True)
class Heard:
    """View of the one who asked, as far as it concerns the other's update, as 32-bit words; the other sees as much.

    Beside it stand the power and the sealed seed, which say nothing without the server's key.
    """

    whole: Words
    kept: Words
    mask: Mask
    """1 where coordinates are swapped."""
    own: Words
    """Its own update."""


@dataclass(frozen=True)
class Unmasked:
    """An attack's guess of the partner's update."""

    words: Words
    sure: npt.NDArray[np.bool_]
    """Of which coordinates it claims to know."""


@dataclass(kw_only=True)
class PartnerAttack:
    """A curious participant; its fields are its parameters."""

    knows: ClassVar[tuple[str, ...]] = ()
    """What it declares it must know; set by the decorator that registers it."""

    def unmask(self, heard: Heard) -> Unmasked:
        """Rebuild the partner's update."""
        raise NotImplementedError

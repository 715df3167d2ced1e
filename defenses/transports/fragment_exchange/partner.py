"""Contract of attacks by a curious participant on its partner's update, from the messages of their exchange."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fflbench.crypto.pads import Mask, Words

BITS = 32


@dataclass(frozen=True)
class Heard:
    """The initiator's view of its partner's update, as 32-bit words; the acceptor sees as much.

    The power and the sealed seed are left out, since they reveal nothing without the server's key.
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
    """Whether the attack is certain of each coordinate."""


@dataclass(kw_only=True)
class PartnerAttack:
    """Attack by a curious participant; its fields are its parameters."""

    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that it declares to need; set by the decorator that registers it."""

    def unmask(self, heard: Heard) -> Unmasked:
        """Reconstruct the partner's update."""
        raise NotImplementedError

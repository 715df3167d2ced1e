"""Contract of attacks by a curious participant on its partner's update, from the messages of their exchange."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fflbench.plugin import keystream


@dataclass(frozen=True)
class InitiatorView:
    """The initiator's view of its partner's update, as 32-bit words; the acceptor sees as much.

    The power and the sealed seed are left out, since they reveal nothing without the server's key.
    """

    whole: keystream.Words
    kept: keystream.Words
    mask: keystream.Mask
    """1 where coordinates are swapped."""
    own: keystream.Words
    """Its own update."""


@dataclass(frozen=True)
class RecoveredUpdate:
    """An attack's reconstruction of the partner's update."""

    words: keystream.Words
    certain: npt.NDArray[np.bool_]
    """Whether the attack is certain of each coordinate."""


@dataclass(kw_only=True)
class PartnerAttack:
    """Attack by a curious participant; its fields are its parameters."""

    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that it declares to need; set by the decorator that registers it."""

    def recover_update(self, view: InitiatorView) -> RecoveredUpdate:
        """Reconstruct the partner's update."""
        raise NotImplementedError

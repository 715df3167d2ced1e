"""Insecure exchanges for demonstrations: pads from a generator that can be solved, or none.

They show that attacks by a partner succeed on insecure pads. Nothing else uses them.
"""

import numpy as np

from fflbench.plugin import keystream

from .parties import Acceptor, Initiator


class _MersenneTwisterPads:
    """Pads from a Mersenne Twister, as numpy and Python's `random` have it."""

    def _xor_pad(self, data: keystream.Words, seed: bytes, purpose: str, out: keystream.Words) -> keystream.Words:
        generator = np.random.MT19937(int.from_bytes(seed))
        return np.bitwise_xor(data, generator.random_raw(len(data)).astype(np.uint32), out=out)


class _NoPads:
    """No pads."""

    def _xor_pad(self, data: keystream.Words, seed: bytes, purpose: str, out: keystream.Words) -> keystream.Words:
        out[:] = data
        return out


class MersenneTwisterInitiator(_MersenneTwisterPads, Initiator):
    """Initiator with pads from a Mersenne Twister."""


class MersenneTwisterAcceptor(_MersenneTwisterPads, Acceptor):
    """Acceptor with pads from a Mersenne Twister."""


class UnpaddedInitiator(_NoPads, Initiator):
    """Initiator without pads."""


class UnpaddedAcceptor(_NoPads, Acceptor):
    """Acceptor without pads."""


PARTIES: dict[str, tuple[type[Initiator], type[Acceptor]]] = {
    "aes-ctr": (Initiator, Acceptor),
    "mersenne-twister": (MersenneTwisterInitiator, MersenneTwisterAcceptor),
    "none": (UnpaddedInitiator, UnpaddedAcceptor),
}
"""Classes of both parties, by their pads; the first is the real exchange."""

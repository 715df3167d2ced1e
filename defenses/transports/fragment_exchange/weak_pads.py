"""Insecure exchanges for demonstrations: pads from a generator that can be solved, or none.

They show that attacks by a partner succeed on insecure pads. Nothing else uses them.
"""

import numpy as np

from fflbench.crypto.pads import Words

from .parties import Acceptor, Initiator


class _Twister:
    """Pads from a Mersenne Twister, as numpy and Python's `random` have it."""

    def _add_pad(self, data: Words, seed: bytes, purpose: str, out: Words) -> Words:
        generator = np.random.MT19937(int.from_bytes(seed))
        return np.bitwise_xor(data, generator.random_raw(len(data)).astype(np.uint32), out=out)


class _Bare:
    """No pads."""

    def _add_pad(self, data: Words, seed: bytes, purpose: str, out: Words) -> Words:
        out[:] = data
        return out


class TwisterInitiator(_Twister, Initiator):
    """Initiator with pads from a Mersenne Twister."""


class TwisterAcceptor(_Twister, Acceptor):
    """Acceptor with pads from a Mersenne Twister."""


class BareInitiator(_Bare, Initiator):
    """Initiator without pads."""


class BareAcceptor(_Bare, Acceptor):
    """Acceptor without pads."""


PARTIES: dict[str, tuple[type[Initiator], type[Acceptor]]] = {
    "aes-ctr": (Initiator, Acceptor),
    "mersenne-twister": (TwisterInitiator, TwisterAcceptor),
    "none": (BareInitiator, BareAcceptor),
}
"""Classes of both parties, by their pads; the first is the real exchange."""

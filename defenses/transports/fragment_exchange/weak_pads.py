"""Exchanges as they must not be: with pads from a generator that can be solved for, or with none.

They show that the attacks by a partner find what is there to find. Nothing else uses them.
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
    """No pads at all."""

    def _add_pad(self, data: Words, seed: bytes, purpose: str, out: Words) -> Words:
        out[:] = data
        return out


class TwisterInitiator(_Twister, Initiator):
    """Asks, under weak pads."""


class TwisterAcceptor(_Twister, Acceptor):
    """Is asked, under weak pads."""


class BareInitiator(_Bare, Initiator):
    """Asks, in the clear."""


class BareAcceptor(_Bare, Acceptor):
    """Is asked, in the clear."""


PARTIES: dict[str, tuple[type[Initiator], type[Acceptor]]] = {
    "aes-ctr": (Initiator, Acceptor),
    "mersenne-twister": (TwisterInitiator, TwisterAcceptor),
    "none": (BareInitiator, BareAcceptor),
}
"""By their pads; the first is the exchange itself."""

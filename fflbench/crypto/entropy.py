"""Where secrets come from. No numpy, torch or `random` generator is ever near one.

Partners learn half of each pad in clear (r where the mask is 0, rho where it is 1), so a generator whose state can be
solved for would give everything away.
"""

import os
from dataclasses import dataclass, field

from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF


def derive(secret: bytes, *label: str | int | bytes, size: int = 32) -> bytes:
    """HKDF-SHA256 of a secret for one purpose; labels of different parts never run together."""
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in label]
    return hkdf(secret, b"".join(len(part).to_bytes(4) + part for part in (b"fflbench", *parts)), size)


def hkdf(secret: bytes, info: bytes, size: int, salt: bytes = b"") -> bytes:
    """HKDF-SHA256 (RFC 5869)."""
    derived = HKDF(secret, size, salt, SHA256, context=info)
    assert isinstance(derived, bytes)
    return derived


@dataclass(frozen=True)
class Entropy:
    """The operating system's randomness, or inside a benchmark cell what its seed decides.

    With a seed, secrets repeat to the bit, as a benchmark must, and are therefore not secret.
    """

    seed: int | None = field(default=None, repr=False)

    def bytes(self, size: int, *purpose: str | int) -> bytes:
        """So many bytes for one purpose, which must never be asked for twice."""
        if self.seed is None:
            return os.urandom(size)
        return derive(f"cell {self.seed}".encode(), "entropy", *purpose, size=size)

"""Sources of secrets. No numpy, torch or `random` generator is ever near one.

Protocols show others parts of a pad in clear, so a generator whose state can be solved for would give the rest away.
"""

import builtins
import os
from dataclasses import dataclass, field

import numpy as np
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF

from fflbench.randomness import stream


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
    """Randomness of a transport: the operating system's, or inside a benchmark cell a function of its seed.

    With a seed, secrets repeat to the bit, as a benchmark must, and are therefore not secret.
    """

    seed: int | None = field(default=None, repr=False)

    def bytes(self, size: int, *purpose: str | int) -> bytes:
        """Return so many bytes for one purpose, which must never be asked for twice."""
        return os.urandom(size) if self.seed is None else self.derive("entropy", *purpose, size=size)

    def derive(self, *purpose: str | int, size: int = 32) -> "builtins.bytes":
        """Return a secret of this entropy, the same whenever it is asked for."""
        if self.seed is None:
            raise ValueError("only an entropy with a seed repeats its secrets")
        return derive(f"cell {self.seed}".encode(), *purpose, size=size)

    def generator(self, *purpose: str | int) -> np.random.Generator:
        """Return a generator for choices that need not stay secret, such as an order."""
        return np.random.default_rng() if self.seed is None else stream(self.seed, *purpose)

"""Sources of secrets, which never come from a generator of numpy, torch or `random`.

Protocols reveal parts of a pad in clear, so a generator whose state can be solved for would reveal the rest.
"""

import builtins
import os
from dataclasses import dataclass, field

import numpy as np
from Crypto.Hash import SHA256
from Crypto.Protocol.KDF import HKDF

from fflbench.randomness import stream


def derive_key(secret: bytes, *label: str | int | bytes, size: int = 32) -> bytes:
    """Derive a key from a secret for one purpose by HKDF-SHA256; every part of the label is length-prefixed."""
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in label]
    return hkdf(secret, b"".join(len(part).to_bytes(4) + part for part in (b"fflbench", *parts)), size)


def hkdf(secret: bytes, info: bytes, size: int, salt: bytes = b"") -> bytes:
    """Derive a key by HKDF-SHA256 (RFC 5869)."""
    derived = HKDF(secret, size, salt, SHA256, context=info)
    assert isinstance(derived, bytes)
    return derived


@dataclass(frozen=True)
class Entropy:
    """Randomness of a transport: the operating system's, or inside a benchmark cell a function of its seed.

    With a seed, secrets repeat to the bit, as a benchmark must, and are therefore not secret.
    """

    seed: int | None = field(default=None, repr=False)

    def random_bytes(self, size: int, *purpose: str | int) -> bytes:
        """Return `size` bytes for one purpose, which must never be used twice."""
        return os.urandom(size) if self.seed is None else self.derive_secret("entropy", *purpose, size=size)

    def derive_secret(self, *purpose: str | int, size: int = 32) -> "builtins.bytes":
        """Return a secret of this entropy, the same on every call."""
        if self.seed is None:
            raise ValueError("only an entropy with a seed repeats its secrets")
        return derive_key(f"cell {self.seed}".encode(), *purpose, size=size)

    def generator(self, *purpose: str | int) -> np.random.Generator:
        """Return a generator for choices that need not stay secret, such as an order."""
        return np.random.default_rng() if self.seed is None else stream(self.seed, *purpose)

"""AES-256-CTR keystreams as one-time pads and random masks, written into preallocated arrays.

A keystream's key is derived for one seed and one label and used for nothing else, so its counter starts at zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from Crypto.Cipher import AES

from fflbench.crypto.entropy import derive_key

SEED_BYTES = 32

Words = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.uint8]


def keystream_key(seed: bytes, purpose: str, round: int) -> bytes:
    """Derive the key of a pad; its label names no party, since the server need not know who drew the seed."""
    return derive_key(seed, "pad", purpose, round)


def xor_keystream(data: npt.NDArray[Any], key: bytes, out: npt.NDArray[Any]) -> None:
    """XOR data with the keystream of a key, in one pass; `out` may be `data`."""
    if len(data):
        AES.new(key, AES.MODE_CTR, nonce=b"").encrypt(as_bytes(data), output=as_bytes(out))


def fill_keystream(key: bytes, out: Words) -> Words:
    """Fill an array with the keystream of a key."""
    out.fill(0)
    xor_keystream(out, key, out)
    return out


def random_mask(shared: bytes, round: int, initiator: int, acceptor: int, size: int) -> Mask:
    """Return one unbiased bit per coordinate: 1 where it is swapped, 0 where it is kept."""
    bits = np.zeros(-(-size // 8), np.uint8)
    xor_keystream(bits, derive_key(shared, "mask", round, initiator, acceptor), bits)
    return np.unpackbits(bits, count=size)


def as_bytes(array: npt.NDArray[Any]) -> "memoryview[int]":
    """Return an array's memory as bytes."""
    return array.data.cast("B")

"""Pads and masks: AES-256-CTR keystreams, written into preallocated arrays.

A stream's key is derived for one seed and one label and used for nothing else, so its counter starts at zero.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from Crypto.Cipher import AES

from fflbench.crypto.entropy import derive

SEED_BYTES = 32

Words = npt.NDArray[np.uint32]
Mask = npt.NDArray[np.uint8]


def pad_key(seed: bytes, purpose: str, round: int) -> bytes:
    """Return the key of a pad, whose label names no party: the server need not know who drew the seed."""
    return derive(seed, "pad", purpose, round)


def add_pad(data: npt.NDArray[Any], key: bytes, out: npt.NDArray[Any]) -> None:
    """XOR data with the keystream of a key, in one pass; `out` may be `data`."""
    if len(data):
        AES.new(key, AES.MODE_CTR, nonce=b"").encrypt(as_bytes(data), output=as_bytes(out))


def pad(key: bytes, out: Words) -> Words:
    """Fill an array with the keystream of a key."""
    out.fill(0)
    add_pad(out, key, out)
    return out


def mask(shared: bytes, round: int, initiator: int, acceptor: int, size: int) -> Mask:
    """Return one unbiased bit per coordinate: 1 where it is swapped, 0 where it is kept."""
    bits = np.zeros(-(-size // 8), np.uint8)
    add_pad(bits, derive(shared, "mask", round, initiator, acceptor), bits)
    return np.unpackbits(bits, count=size)


def as_bytes(array: npt.NDArray[Any]) -> "memoryview[int]":
    """Return an array's memory as bytes."""
    return array.data.cast("B")

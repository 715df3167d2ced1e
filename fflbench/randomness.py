"""Named random streams of one seed, one per purpose, so that no draw affects another purpose."""

import hashlib

import numpy as np

from fflbench.types import Indices


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return the generator of one purpose, such as `stream(seed, "batches", participant, round)`."""
    named = repr([part if isinstance(part, str) else int(part) for part in (seed, *purpose)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(named.encode()).digest()))


def fixed_split(n: int) -> tuple[Indices, Indices]:
    """Return the indices of n examples for training (four fifths) and for testing, the same for every seed.

    Numpy guarantees the same stream across versions for the legacy generator only (NEP 19).
    """
    order = np.random.RandomState(0).permutation(n)
    return order[: n * 4 // 5], order[n * 4 // 5 :]

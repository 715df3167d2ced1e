"""Named streams of one seed: each purpose draws from its own, so that no draw disturbs another."""

import hashlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator of one purpose, such as `stream(seed, "batches", participant, round)`."""
    named = repr([part if isinstance(part, str) else int(part) for part in (seed, *purpose)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(named.encode()).digest()))


def fixed_permutation(n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The order in which a data set is cut into training and test part, the same for every seed and for ever.

    Numpy promises the stream of the legacy generator across versions (NEP 19), and of no other.
    """
    return np.random.RandomState(0).permutation(n)

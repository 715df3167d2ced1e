"""Named streams of one seed: each purpose draws from its own, so that no draw disturbs another."""

import hashlib

import numpy as np

from fflbench.types import Indices


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The generator of one purpose, such as `stream(seed, "batches", participant, round)`."""
    named = repr([part if isinstance(part, str) else int(part) for part in (seed, *purpose)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(named.encode()).digest()))


def fixed_split(n: int) -> tuple[Indices, Indices]:
    """Which of n examples are to learn from (four fifths) and which to test on, the same for every seed and for ever.

    Numpy promises the stream of the legacy generator across versions (NEP 19), and of no other.
    """
    order = np.random.RandomState(0).permutation(n)
    return order[: n * 4 // 5], order[n * 4 // 5 :]

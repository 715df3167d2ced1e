"""Named random streams of one seed, one per purpose, so that no draw affects another purpose."""

import hashlib

import numpy as np


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return the generator of one purpose, such as `stream(seed, "batches", participant, round)`."""
    named = repr([part if isinstance(part, str) else int(part) for part in (seed, *purpose)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(named.encode()).digest()))

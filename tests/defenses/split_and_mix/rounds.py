"""Rounds of given updates behind split and mix."""

import numpy as np

from fflbench.federation import Columns, Setting
from fflbench.federation.chain import defense


def begin(people, columns, sizes=None, seed=0, **parameters):
    chain = defense("split-and-mix", **parameters)
    sizes = np.full(people, 7) if sizes is None else np.asarray(sizes)
    chain.begin(Setting(people, people, sizes, Columns.of_length(columns)), seed)
    return chain


def transmit(chain, updates, round=0, **options):
    people, columns = updates.shape
    model = np.zeros(columns, np.float32)
    return chain.transmit(round, model, np.arange(people), updates.copy(), **options)


def round_of(updates, sizes=None, seed=0, options=(), **parameters):
    """A chain after one round in which everybody is watched, and the round's transcript."""
    chain = begin(*updates.shape, sizes, seed, **parameters)
    return chain, transmit(chain, updates, watch=range(len(updates)), **dict(options))


def sums_of_shares(transcript):
    """What the server receives in full mode: one row per submitter."""
    sums = transcript.server.extra["sums of shares"]
    return np.stack([sums[who] for who in sorted(sums)])


def normal(people, columns, seed=0):
    return np.random.default_rng(seed).standard_normal((people, columns), dtype=np.float32) * np.float32(0.1)

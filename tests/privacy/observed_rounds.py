"""Rounds of given updates behind a chain, as observations see them."""

import numpy as np

from fflbench import registry
from fflbench.federation import Columns, Setting
from fflbench.federation.chain import defense
from fflbench.privacy import observation
from fflbench.registry import Kind

PEOPLE, COLUMNS = 4, 300
UPDATES = np.random.default_rng(0).standard_normal((PEOPLE, COLUMNS), dtype=np.float32)


def transmit_watched_round(text, updates=UPDATES, sizes=None, columns=None, seed=0, **parameters):
    """A chain after one round in which everybody is watched, and the transcript of that round."""
    people, count = updates.shape
    chain = defense(text, **parameters)
    sizes = np.full(people, 3) if sizes is None else sizes
    chain.begin(Setting(people, people, sizes, columns or Columns.of_length(count)), seed)
    everybody = np.arange(people)
    return chain, chain.transmit(0, np.zeros(count, np.float32), everybody, updates.copy(), watch=everybody.tolist())


def observe_round(name, chain, transcript, linear=()):
    """Updates that an observation extracts from a round."""
    observing = registry.get(Kind.OBSERVATION, name).create()
    people = list(range(chain.setting.participants))
    return observation.observe(observing, chain.transport, transcript, people, linear)

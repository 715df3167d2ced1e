"""Small rounds of chains, and their server's half in another process."""

import pickle
from dataclasses import replace

import numpy as np

from fflbench import registry
from fflbench.federation import Columns, Setting
from fflbench.federation.chain import create
from fflbench.randomness import stream

SEED = 0x5EED_0F_A_CE11
"""Large enough to be recognised among the bytes of a pickle."""
PARTICIPANTS = 8
COLUMNS = Columns(
    spans={"weight": slice(0, 4), "last.weight": slice(4, 8), "last.bias": slice(8, 10), "variance": slice(10, 12)},
    shapes={"weight": (2, 2), "last.weight": (2, 2), "last.bias": (2,), "variance": (2,)},
    parameters=slice(0, 10),
    last_layer=slice(4, 10),
    count=12,
)
"""Of a model of two layers, with buffers that are no parameters."""
MODEL = np.linspace(-1, 1, COLUMNS.count, dtype=np.float32)


def begun(configuration):
    """Return a chain before its first round, with unequal numbers of examples."""
    chain = create(configuration)
    chain.begin(Setting(PARTICIPANTS, PARTICIPANTS, np.arange(1, PARTICIPANTS + 1) * 10, COLUMNS), SEED)
    return chain


def transmitted(chain, round, watch=()):
    """Return the transcript of a round in which everybody sends an update of its own."""
    selected = chain.select(round)
    updates = np.random.default_rng(round).normal(size=(PARTICIPANTS, COLUMNS.count)).astype(np.float32)
    transcript = chain.transmit(round, MODEL, selected, updates[selected] + np.float32(0.5), watch=watch)
    if chain.rule.needs_root_update:
        transcript.server = replace(transcript.server, root_update=updates.mean(0) + np.float32(0.5))
    return transcript


def packed(chain, configuration, view):
    """Return all that the server's half of a round is given, as bytes, before it changes any of it."""
    rng = stream(SEED, "rule", view.round)
    parts = {"preaggregations": configuration["preaggregations"], "rule": configuration["rule"]}
    return pickle.dumps((parts, chain.rule.setting, chain.rule.memory, view, rng))


def served(content, plugins=()):
    """Run the server's half from these bytes alone, and return the change, feedback and memory as bytes."""
    assert registry.load_named(plugins) == ()
    parts, setting, memory, view, rng = pickle.loads(content)
    server = create(parts).server
    server.rule.begin(setting)
    server.rule.memory = memory
    change, feedback = server.aggregate(view, rng)
    return result(change, feedback, server.rule.memory)


def result(change, feedback, memory):
    """Return what the server's half leaves, bit by bit."""
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in memory.items()}
    return change.dtype.str, change.tobytes(), {int(who): float(value) for who, value in feedback.items()}, arrays

"""A small suite, and the cells that a text plans."""

import tomllib

from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

GOOD = """
title = "Own"
tasks = ["digits-mlp"]
attacks = ["none", "gaussian-noise"]
defenses = ["fedavg", "krum-3"]
seeds = [0, 1]

[overrides]
rounds = 3

[attack.gaussian-noise]
sigma = 0.1

[defense.krum-3]
use = "multi-krum"
f = 3
"""


def cells(text, *sets):
    return plan(parse(tomllib.loads(text), "own", "own.toml", sets))

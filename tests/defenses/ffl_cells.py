"""Cells with FFL, and the parts of its paper written slowly."""

import math
from statistics import median

import numpy as np

from fflbench import registry
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind


def create(kind, name, **parameters):
    return registry.get(kind, name).create(**parameters)


def cell(attack="none", defense="ffl", seed=0, attack_parameters=None, defense_parameters=None, **fields):
    fields = {"rounds": 3, **fields}
    return Federation(
        create(Kind.TASK, "digits-mlp", **fields),
        create(Kind.ATTACK, attack, **(attack_parameters or {})),
        create(Kind.DEFENSE, defense, **(defense_parameters or {})),
        seed,
    )


def by_name(it, selected, rows):
    """Rows as participants send them: times their number of examples over the mean."""
    factors = (it.defense.setting.sizes[selected] / it.defense.setting.sizes.mean()).astype(np.float32)
    return {int(who): row * factor for who, row, factor in zip(selected, rows, factors, strict=True)}


def quartile(values):
    """The first quartile, linear between order statistics."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * 0.25
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def slow_scores(rows, last, alpha):
    """The paper's "Compute similarity", step by step."""
    magnitudes = [math.sqrt(math.fsum(float(x) ** 2 for x in row)) for row in rows]
    distances = [abs(median(magnitudes) - magnitude) for magnitude in magnitudes]
    closeness = [1 - d / max(distances) if max(distances) else 1.0 for d in distances]
    ends = [[float(x) for x in row[last]] for row in rows]
    middle = [median(column) for column in zip(*ends, strict=True)]

    def cosine(a, b):
        lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
        return math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0

    directions = [(cosine(end, middle) + 1) / 2 for end in ends]
    return [alpha * c + (1 - alpha) * d for c, d in zip(closeness, directions, strict=True)]

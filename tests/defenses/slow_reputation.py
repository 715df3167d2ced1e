"""The scores of FFL's paper, written slowly."""

import math
from statistics import median


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

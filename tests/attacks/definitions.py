"""Definitions of poisoning attacks as plain loops in double precision, which share no code with the attacks."""

import math


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def deviation(rows):
    middle = mean(rows)
    return [
        math.sqrt(sum((value - centre) ** 2 for value in column) / len(rows))
        for column, centre in zip(zip(*rows, strict=True), middle, strict=True)
    ]


def dot(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


def squared_distance(one, other):
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def moved(start, direction, step):
    return [a + step * b for a, b in zip(start, direction, strict=True)]


def length(vector):
    return math.sqrt(dot(vector, vector))


def sign(value):
    return (value > 0) - (value < 0)


def a_little_is_enough(rows, z):
    return [centre - z * sigma for centre, sigma in zip(mean(rows), deviation(rows), strict=True)]


def direction_away(rows, kind):
    middle = mean(rows)
    if kind == "std":
        return [-sigma for sigma in deviation(rows)]
    if kind == "sign":
        return [-sign(value) for value in middle]
    return [-value / length(middle) for value in middle]


def is_within_largest_distance(rows, row):
    """Whether a row is no farther from any of the rows than two of these are from each other."""
    largest = max(squared_distance(one, other) for one in rows for other in rows)
    return max(squared_distance(row, other) for other in rows) <= largest


def is_within_largest_sum(rows, row):
    """Whether the squared distances of a row to all rows have no larger sum than those of one of these."""
    largest = max(sum(squared_distance(one, other) for other in rows) for one in rows)
    return sum(squared_distance(row, other) for other in rows) <= largest


def farthest(rows, kind, is_allowed):
    """The mean, moved as far as allowed: the step is doubled while it is allowed, then bisected."""
    middle, direction = mean(rows), direction_away(rows, kind)
    good, bad = 0.0, 1e-6
    while is_allowed(rows, moved(middle, direction, bad)):
        good, bad = bad, 2 * bad
    for _ in range(60):
        half = (good + bad) / 2
        if is_allowed(rows, moved(middle, direction, half)):
            good = half
        else:
            bad = half
    return moved(middle, direction, good)


def fang_interval(values, b):
    """The interval of one coordinate that attackers who know the honest values draw from."""
    if sum(values) < 0:
        end = max(values)
        return (end, b * end) if end > 0 else (end, end / b)
    end = min(values)
    return (end / b, end) if end > 0 else (b * end, end)


def fang_interval_of_own(values):
    """The interval of one coordinate that attackers who know only their own values draw from."""
    centre, sigma = sum(values) / len(values), deviation([[value] for value in values])[0]
    return (centre + 3 * sigma, centre + 4 * sigma) if centre < 0 else (centre - 4 * sigma, centre - 3 * sigma)


def krum_score(rows, place, neighbours):
    others = sorted(squared_distance(rows[place], row) for at, row in enumerate(rows) if at != place)
    return sum(others[:neighbours])


def fang_krum_bound(rows, attackers):
    """The largest lambda that the paper's theorem allows; `rows` are the honest ones."""
    n, d = len(rows) + attackers, len(rows[0])
    sums = []
    for place, row in enumerate(rows):
        others = sorted(math.sqrt(squared_distance(row, other)) for at, other in enumerate(rows) if at != place)
        sums.append(sum(others[: n - attackers - 2]))
    return min(sums) / ((n - 2 * attackers - 1) * math.sqrt(d)) + max(length(row) for row in rows) / math.sqrt(d)


def fang_krum(rows, attackers, threshold=1e-5):
    """Lambda, halved until Krum selects a row of the attackers."""
    signs = [-1 if value < 0 else 1 for value in mean(rows)]
    step = fang_krum_bound(rows, attackers)
    while step >= threshold:
        crafted = [[-step * each for each in signs] for _ in range(attackers)]
        everybody = crafted + rows
        scores = [krum_score(everybody, place, len(rows) - 2) for place in range(len(everybody))]
        if scores[0] < min(scores[attackers:]):
            break
        step /= 2
    return step, signs


def mimic(rounds, z, warmup):
    """The honest row that is copied in each of the rounds, from a first random direction."""
    centre, copied = [0.0] * len(z), []
    for t, rows in enumerate(rounds):
        if t < warmup:
            centre = [(t * old + new) / (1 + t) for old, new in zip(centre, mean(rows), strict=True)]
            spread = [0.0] * len(z)
            for row in rows:
                apart = moved(row, centre, -1)
                spread = moved(spread, apart, dot(apart, z))
            added = [value / length(spread) for value in spread]
            z = added if t == 0 else [(t * old + new) / (1 + t) for old, new in zip(z, added, strict=True)]
            z = [value / length(z) for value in z]
        copied.append(max(rows, key=lambda row: dot(row, z)))
    return copied


def byzmean(rows, attackers, z):
    """The rows of all attackers."""
    bad, first = a_little_is_enough(rows, z), attackers // 2
    n, sums = len(rows) + attackers, [sum(column) for column in zip(*rows, strict=True)]
    rest = [((n - first) * v - total) / (attackers - first) for v, total in zip(bad, sums, strict=True)]
    return [bad] * first + [rest] * (attackers - first)


def poisonedfl(models, signs, factor, window, quantile, decay=0.7, smallest=0.5):
    """The row that attackers send in each round, given the global model of each."""
    sent, rows, tested = [0.0] * len(signs), [], models[0]
    for t, model in enumerate(models):
        change = moved(model, models[t - 1], -1) if t else [0.0] * len(signs)
        if t and t % window == 0:
            total = moved(model, tested, -1)
            agreeing = sum(sign(a or w) == s for a, w, s in zip(total, model, signs, strict=True))
            if agreeing < quantile and factor * decay >= smallest:
                factor *= decay
            tested = model
        ratio = length(change) / length(sent) if length(sent) else 0.0
        magnitudes = [abs(g - ratio * m) for g, m in zip(change, sent, strict=True)]
        scale = factor * length(change) / length(magnitudes) if length(magnitudes) else 0.0
        sent = [scale * magnitude * s for magnitude, s in zip(magnitudes, signs, strict=True)]
        rows.append(sent)
    return rows

"""Statistics: means with intervals, paired tests and prediction intervals."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean


def stdev(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; Python's own uses fractions and takes a hundred times as long."""
    middle = fmean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def format_number(value: float, digits: int, powers_from: float = 1e12) -> str:
    """Return a number with `digits` behind the decimal point, or as a power of ten from `powers_from` on."""
    return f"{value:.{digits}f}" if abs(value) < powers_from else f"{value:.2e}"


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds with its confidence interval."""

    mean: float
    half_width: float | None
    """Half width of the 95% interval; None with fewer than two seeds."""
    seeds: int


def estimate_mean(values: Sequence[float]) -> Estimate:
    """Return the mean with its 95% interval by Student's t."""
    n = len(values)
    if n < 2:
        return Estimate(fmean(values), None, n)
    # The quantile alone: scipy.stats takes a second to import.
    from scipy.special import stdtrit

    return Estimate(fmean(values), float(stdtrit(n - 1, 0.975)) * stdev(values) / math.sqrt(n), n)


BySeed = Mapping[int, float]
"""Figure of each seed."""

LEVEL = 0.05
TINY = 1e-9


@dataclass(frozen=True)
class Difference:
    """Mean difference over the seeds that both sides have."""

    estimate: Estimate
    p: float | None
    """Two-sided p-value of no difference, by Student's paired t-test; None with fewer than two seeds."""


def paired_difference(ours: BySeed, theirs: BySeed) -> Difference | None:
    """Return the difference of ours and theirs, seed by seed; None if they share no seed."""
    shared = [ours[seed] - theirs[seed] for seed in sorted(ours) if seed in theirs]
    if not shared:
        return None
    difference = estimate_mean(shared)
    if len(shared) < 2:
        return Difference(difference, None)
    spread = stdev(shared)
    if spread <= TINY * abs(difference.mean):
        # Without any spread there is no test: p is 1 for no difference, and unknown for any other.
        return Difference(difference, 1.0 if difference.mean == 0 else None)
    from scipy.special import stdtr

    t = difference.mean / (spread / math.sqrt(len(shared)))
    return Difference(difference, float(2 * stdtr(len(shared) - 1, -abs(t))))


def holm_adjusted_p_values(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the family-wise error rate (Holm, Scandinavian J. of Statistics, 1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def worst_by_seed(figures: Iterable[BySeed], *, highest: bool = False) -> dict[int, float]:
    """Return the worst figure, lowest or highest, of each seed that all of them have."""
    listed = list(figures)
    seeds = set.intersection(*(set(figure) for figure in listed)) if listed else set()
    choose = max if highest else min
    return {seed: choose(figure[seed] for figure in listed) for seed in sorted(seeds)}


def best_and_tied(figures: Mapping[str, BySeed], *, highest: bool) -> dict[str, str]:
    """Return who is "best" (every other is worse by paired tests, Holm-corrected) or "tied" with the best."""
    means = {name: fmean(figure.values()) for name, figure in figures.items() if figure}
    if not means:
        return {}
    best = (max if highest else min)(means, key=lambda name: means[name])
    others = [name for name in means if name != best]
    differences = {name: paired_difference(figures[best], figures[name]) for name in others}
    ps = [1.0 if difference is None or difference.p is None else difference.p for difference in differences.values()]
    level = [name for name, p in zip(others, holm_adjusted_p_values(ps), strict=True) if p >= LEVEL]
    if not level:
        return {best: "best"} if others else {}
    return dict.fromkeys([best, *level], "tied")


def prediction_interval(
    values: Sequence[float], level: float = 0.95, *, is_share: bool = False
) -> tuple[float, float] | None:
    """Return the prediction interval for one more seed, of a share within 0 and 1; None with fewer than two seeds."""
    n = len(values)
    if n < 2:
        return None
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, (1 + level) / 2)) * stdev(values) * math.sqrt(1 + 1 / n)
    low, high = fmean(values) - reach, fmean(values) + reach
    return (max(0.0, low), min(1.0, high)) if is_share else (low, high)


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the standard deviation of single values."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def clopper_pearson_interval(successes: int, trials: int) -> tuple[float, float]:
    """Return the exact 95% interval of a share (Clopper and Pearson, Biometrika 1934)."""
    from scipy.special import betaincinv

    tail = (1 - 0.95) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high

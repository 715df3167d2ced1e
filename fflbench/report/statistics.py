"""Statistics: means with intervals, paired tests and prediction intervals."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt


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
    ends: tuple[float, float] | None = None
    """Ends of the 95% interval, where the mean is not in its middle."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the 95% interval; None with fewer than two seeds."""
        if self.ends or self.half_width is None:
            return self.ends
        return self.mean - self.half_width, self.mean + self.half_width


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


@dataclass(frozen=True)
class WorstMean:
    """The worst of several means over seeds."""

    name: str
    """Name of the worst."""
    estimate: Estimate
    """Its mean, with an interval that takes the choice of the worst into account."""


RESAMPLES = 10_000
"""Samples of seeds drawn where there are too many to take each of them once."""


def worst_mean(figures: Mapping[str, BySeed], *, highest: bool) -> WorstMean:
    """Return the worst mean over seeds, lowest or highest, with an interval by bootstrap over the seeds.

    All must have the same seeds. Each sample of the seeds, drawn with replacement, gives a mean of each figure, and the
    worst of these. The interval is the expanded percentile interval (Hesterberg, What teachers should know about the
    bootstrap, The American Statistician 2015), about as long as Student's for the mean of a single figure, which needs
    no choice and gets that one.
    """
    names = sorted(figures)
    seeds = sorted(figures[names[0]])
    values = np.array([[figures[name][seed] for seed in seeds] for name in names])
    means, n = values.mean(1), len(seeds)
    worst = int(means.argmax() if highest else means.argmin())
    estimate = estimate_mean(values[worst].tolist())
    if n < 2 or len(names) < 2:
        return WorstMean(names[worst], estimate)
    shares, probabilities = _samples_of_seeds(n)
    drawn = values @ shares
    of_samples = drawn.max(0) if highest else drawn.min(0)
    order = np.argsort(of_samples, kind="stable")
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975)))
    places = np.searchsorted(np.cumsum(probabilities[order]), [tail, 1 - tail]).clip(max=len(order) - 1)
    low, high = of_samples[order[places]].tolist()
    return WorstMean(names[worst], Estimate(estimate.mean, None, n, (low, high)))


@functools.cache
def _samples_of_seeds(n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the share of each of n seeds (rows) in each sample (columns), and the probabilities of the samples.

    Up to eight seeds these are all different samples, else random ones.
    """
    if n <= 8:
        drawn = np.array(list(itertools.combinations_with_replacement(range(n), n)))
        counts = (drawn[:, None, :] == np.arange(n)[:, None]).sum(2)
        ways = [math.factorial(n) / math.prod(map(math.factorial, each)) for each in counts.tolist()]
        return counts.T / n, np.array(ways) / n**n
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return counts.T / n, np.full(RESAMPLES, 1 / RESAMPLES)


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

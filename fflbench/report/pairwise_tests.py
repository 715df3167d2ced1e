"""Paired tests of all pairs of defenses, and the ranks that follow from them.

With five seeds a paired t-test has four degrees of freedom, and a correction for the hundred pairs of a table leaves it
no power. Moderated tests share information on the spread between the pairs (Smyth, Linear models and empirical Bayes
methods, Statistical Applications in Genetics and Molecular Biology, 2004): each pair's variance is shrunk towards a
common one, the more so the more alike the variances are. Holm's correction over all pairs bounds the probability of a
false difference anywhere in a table by 5%.
"""

import math
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fflbench.report.statistics import LEVEL, BySeed, holm_adjusted_p_values

Numbers: TypeAlias = npt.NDArray[np.float64]
Key = TypeVar("Key")

FEWEST_PAIRS = 15
"""Pairs from which on a common variance is estimated: those of six defenses."""
LEAST_VARIANCE = 1e-5
"""Smallest variance that counts for the common one, as a share of the median, since logarithms are taken."""


def ranks(figures: Mapping[Key, BySeed], *, highest: bool) -> dict[Key, int]:
    """Return the rank of each: one more than the number of others that are better by a test.

    All must have the same seeds, at least two of them. Equal ranks are ties.
    """
    keys = list(figures)
    if len(keys) < 2:
        return dict.fromkeys(keys, 1)
    seeds = sorted(figures[keys[0]])
    values = np.array([[figures[key][seed] for seed in seeds] for key in keys])
    first, second = np.triu_indices(len(keys), 1)
    differences = values[first] - values[second]
    adjusted = np.array(holm_adjusted_p_values(moderated_p_values(differences, len(keys)).tolist()))
    first_is_better = (differences.mean(1) > 0) == highest
    worse = np.where(first_is_better, second, first)[adjusted < LEVEL]
    return {key: 1 + int(count) for key, count in zip(keys, np.bincount(worse, minlength=len(keys)), strict=True)}


def moderated_p_values(differences: Numbers, compared: int) -> Numbers:
    """Return the two-sided p-value of no difference for each row of differences by seed, by moderated t-tests.

    The rows are all pairs of so many compared defenses, which limits the degrees of freedom.
    """
    from scipy.special import stdtr

    seeds = differences.shape[1]
    own = seeds - 1
    means, variances = differences.mean(1), differences.var(1, ddof=1)
    # Pairs without any difference are mostly the same runs, and say nothing about the spread of others.
    prior, common = _common_variance(variances[(differences != 0).any(1)], own)
    shrunk = (
        np.full_like(variances, common) if prior == math.inf else (prior * common + own * variances) / (prior + own)
    )
    t = np.divide(means, np.sqrt(shrunk / seeds), out=np.zeros_like(means), where=shrunk > 0)
    p: Numbers = 2 * stdtr(min(own + prior, (compared - 1) * own), -np.abs(t))
    return p


def _common_variance(variances: Numbers, own: int) -> tuple[float, float]:
    """Return the degrees of freedom and the value of the common variance, by moments of the logarithms."""
    from scipy.special import digamma, polygamma

    if len(variances) < FEWEST_PAIRS or not variances.any():
        return 0.0, 0.0
    limited = np.maximum(variances, LEAST_VARIANCE * np.median(variances[variances > 0]))
    logarithms = np.log(limited) - digamma(own / 2) + math.log(own / 2)
    excess = float(logarithms.var(ddof=1) - polygamma(1, own / 2))
    if excess <= 0:
        return math.inf, float(limited.mean())
    half = _inverse_trigamma(excess)
    # Half of the degrees of freedom: pairs that share a defense have less independent variances than is assumed.
    return half, float(np.exp(logarithms.mean() + digamma(half) - math.log(half)))


def _inverse_trigamma(value: float) -> float:
    """Return the number whose trigamma function has this value, by Newton's method on its reciprocal."""
    from scipy.special import polygamma

    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, found))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, found))
        found += step
        if abs(step) < 1e-8 * found:
            break
    return found

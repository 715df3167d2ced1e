r"""Numbers of additive shares that a round needs, by who sees what of them.

**Sums of shares.** Participants stand in a random cyclic order, and each gives one share to itself and one to each of
the next m - 1. A coalition of the server and T participants knows every share that one of the T sent or received. Of
the other k = n - T it learns the sum over each connected part of the graph that links senders to receivers, and nothing
else. That graph falls apart only where two of the k are followed by m - 1 or more colluders each, so that with the
order drawn at random

$$ P(\text{more than the sum is revealed}) \le \binom{k}{2} \binom{n-1-2(m-1)}{k-1} \Big/ \binom{n-1}{k-1} $$

which is 0 where T < 2(m - 1). Bell et al., Secure single-server aggregation with (poly)logarithmic overhead, CCS 2020,
count the neighbours of secure aggregation in such an order in the same way.

**All shares, shuffled.** Where the server sees all n m shares of one number in random order, with no sums taken
(Ishai et al., Cryptography from anonymity, FOCS 2006), Balle et al., Private summation in the multi-message shuffle
model, CCS 2020, ask for

$$ m \ge 2 + \frac{2 \sigma + \log_2 q}{\log_2 n - \log_2 e} $$

shares of a number in a ring of q elements for a statistical distance of 2^-sigma. It counts shares of single numbers.
Shares that are vectors and travel as a whole have q^D values, and linear algebra tells them apart
(docs/split-and-mix.md).
"""

import math

LOG2_E = math.log2(math.e)


def log2_of_exposure(n: int, colluders: int, shares: int) -> float:
    """Return the logarithm of a bound on the chance that a coalition learns more than the sum of the others."""
    honest, run = n - colluders, shares - 1
    if honest < 2 or colluders < 2 * run:
        return -math.inf
    pairs = math.log2(math.comb(honest, 2))
    return pairs + _log2_binomial(n - 1 - 2 * run, honest - 1) - _log2_binomial(n - 1, honest - 1)


def shares_of_sums(n: int, colluders: int, sigma: float) -> int:
    """Return the least number of shares, of which partial sums are submitted, against so many colluders of n."""
    least = min(2, n)
    return next((m for m in range(least, n) if log2_of_exposure(n, colluders, m) <= -sigma), n)


def shares_in_shuffle(n: int, sigma: float, bits: int) -> int:
    """Return the number of shares of a number of so many bits that are shuffled, each on its own, among n senders."""
    if n < 3:
        raise ValueError("the bound holds for no fewer than three senders")
    return math.ceil(2 + (2 * sigma + bits) / (math.log2(n) - LOG2_E))


def _log2_binomial(n: int, k: int) -> float:
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)

"""Bucketing. Karimireddy et al., Byzantine-robust learning on heterogeneous datasets via bucketing, ICLR 2022."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Coefficients, Matrix, preaggregation


@preaggregation("bucketing", title="Bucketing", regroups=True)
def bucketing(
    updates: Matrix, s: Annotated[int, Ge(1), "updates in a bucket"] = 2, *, rng: np.random.Generator
) -> Coefficients:
    r"""Put the updates into random buckets of s and replace them by the means of the buckets.

    $$ y_b = \frac{1}{|B_b|} \sum_{k \in B_b} x_{\pi(k)}, \qquad B_b = \{s(b-1)+1, \dots, \min(sb, n)\},
       \qquad b = 1, \dots, \lceil n/s \rceil $$

    with $\pi$ a random permutation. The last bucket has fewer updates where s does not divide n.
    """
    n = len(updates)
    coefficients = np.zeros((-(-n // s), n))
    coefficients[np.arange(n) // s, rng.permutation(n)] = 1
    coefficients /= coefficients.sum(1, keepdims=True)
    return coefficients

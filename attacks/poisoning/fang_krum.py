"""Attack on Krum. Fang, Cao, Jia, Gong, Local model poisoning attacks, USENIX Security 2020."""

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from fflbench.plugin import Known, Matrix, attack, gram

from ._crafted_rows import (
    AttackByKnowledge,
    Numbers,
    count_round,
    in_single_precision,
    inner_products,
    known_rows,
    mean_of_rows,
    void_rounds,
)

LARGEST_NOISE = 0.01
"""Largest distance of the other attackers' updates from the first one, as a part of the step's length."""


@attack("fang-krum", title="Fang, Krum", knows=["own data", "attackers' updates", "honest updates"], version=2)
class FangKrum(AttackByKnowledge):
    r"""Send the longest step against the signs s of the honest mean that Krum selects, and updates close to it.

    $$ -\lambda s, \quad \lambda \le \frac{1}{\sqrt d} \left( \frac{1}{n - 2m - 1} \min_i \sum_{l \in \Gamma_i}
    \|g_l - g_i\| + \max_i \|g_i\| \right) $$

    The n - m - 2 honest updates that are nearest to update i are its neighbours. Lambda is halved until Krum selects
    the step sent by all m attackers, or until it is below a threshold: then they send nearly zeros, and tables say so.
    In the paper the step starts from the received global model, which is no change; code of the authors' group takes s
    from the update that Krum selects without attack, and 1 for the first lambda in place of the bound. With partial
    knowledge, Krum runs on the attackers' own updates instead of the honest, with one crafted row and then more until
    it selects one. The other attackers' updates are at most epsilon from the first one, and at most a hundredth of the
    step's length: the paper's epsilon could be larger than the updates themselves. Buffers stay as trained.
    """

    epsilon: Annotated[float, Ge(0), "largest distance of the other attackers' updates from the first one"] = 0.01
    threshold: Annotated[float, Gt(0), "lambda at which the search ends"] = 1e-5

    def poison_updates(self, known: Known) -> Matrix:
        rows, attackers = known_rows(known, self.knowledge), len(known.updates)
        signs = np.where(mean_of_rows(rows) < 0, -1.0, 1.0)
        products, along = gram(rows), inner_products(rows, signs)
        step = 0.0
        for crafted in [attackers] if self.knowledge == "full" else range(1, attackers + 1):
            step = selected_step(products, along, len(signs), crafted, self.threshold)
            if step >= self.threshold:
                break
        count_round(self.memory, void=step < self.threshold)
        epsilon = min(self.epsilon, LARGEST_NOISE * step * math.sqrt(len(signs)))
        for place, row in enumerate(known.updates):
            crafted_row = -step * signs
            if place:
                noise = known.rng.standard_normal(len(signs))
                length = epsilon * known.rng.random()
                crafted_row += noise * (length / max(float(np.linalg.norm(noise)), 1e-30))
            row[known.columns.parameters] = in_single_precision(crafted_row)
        return known.updates

    def flags(self) -> list[str]:
        # Without the number of rounds, which rounding may change on another processor.
        flag = "in some rounds attackers sent nearly zeros, since Krum selects no step (fang-krum)"
        return [flag] if void_rounds(self.memory) else []


def selected_step(products: Numbers, along: Numbers, d: int, crafted: int, threshold: float) -> float:
    """Return the longest step that Krum selects if `crafted` rows send it: the bound, or half of it, and so on.

    The search ends at the first step below the threshold, which is returned if Krum selects none. `products` are the
    inner products of the honest rows, `along` theirs with the signs that the step goes against.
    """
    honest = len(products)
    neighbours, norms = max(honest - 2, 1), products.diagonal()
    distances = np.maximum(norms[:, None] + norms - 2 * products, 0)
    np.fill_diagonal(distances, np.inf)
    nearest = np.sqrt(np.sort(distances)[:, : min(neighbours, honest - 1)]).sum(1).min()
    step = float(nearest / max(honest - crafted - 1, 1) + np.sqrt(norms.max())) / math.sqrt(max(d, 1))
    while step >= threshold:
        to_step = np.maximum(norms + 2 * step * along + step**2 * d, 0)
        of_honest = np.column_stack([distances, *[to_step] * crafted])
        of_step = np.concatenate([np.zeros(crafted - 1), to_step])
        scores, score = (np.sort(each)[..., :neighbours].sum(-1) for each in (of_honest, of_step))
        if score < scores.min():
            break
        step /= 2
    return step

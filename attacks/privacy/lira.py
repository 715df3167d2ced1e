"""The likelihood-ratio attack, online. Carlini et al., Membership inference attacks from first principles, S&P 2022.

Shadow models are updates here: of simulated participants, from the same global model behind the same defense.
"""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Indices, MembershipAttack, MembershipObserver, Vector, privacy_attack

if TYPE_CHECKING:
    from torch import Tensor


@privacy_attack("lira", title="LiRA", knows=["server view", "auxiliary data"])
class LiRA(MembershipAttack):
    r"""Compare the model's confidence in an example with that of shadow updates trained with it and without it.

    $$ \log \frac{\mathcal{N}(\phi; \mu_{in}, \sigma_{in}^2)}{\mathcal{N}(\phi; \mu_{out}, \sigma_{out}^2)}, \qquad
       \phi = \log \frac{p_y}{1 - p_y} $$

    Means are each example's own, variances are shared, as the paper advises for few shadows.
    """

    shadows: Annotated[int, Ge(8), "shadow participants"] = 500

    @property
    def simulates_rounds(self) -> bool:
        return True

    def prepare(self, observer: MembershipObserver, candidates: Indices) -> None:
        pool = np.union1d(candidates, observer.auxiliary_examples)
        size, people = min(observer.size, len(pool) // 2), observer.participants
        held = [observer.rng.choice(pool, size, replace=False) for _ in range(-(-self.shadows // people) * people)]
        groups = [held[first : first + people] for first in range(0, len(held), people)]
        sure, inside = [], []
        for shadow in observer.simulate_rounds(groups, "shadows"):
            own = np.concatenate([groups[shadow.round][who] for who in shadow.observed.participants])
            for update in shadow.observed.updates:
                sure.append(
                    observer.signals.logit_confidences(observer.weights_after(update), candidates).cpu().numpy()
                )
                inside.append(np.isin(candidates, own))
        self.candidates, self.sure = candidates, np.stack(sure)
        self.with_it, self.without = self._fit_normal(np.stack(inside)), self._fit_normal(~np.stack(inside))

    def score(self, observer: MembershipObserver, update: Vector, candidates: Indices) -> "Tensor":
        import torch

        seen = observer.signals.logit_confidences(observer.weights_after(update), candidates)
        places = np.searchsorted(self.candidates, candidates)
        density = []
        for mean, deviation in (self.with_it, self.without):
            apart = (seen.cpu().numpy() - mean[places]) / deviation
            density.append(-(apart**2) / 2 - np.log(deviation))
        return torch.from_numpy(density[0] - density[1])

    def _fit_normal(self, shadows: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.float64], float]:
        """Return each candidate's mean over some shadows, and the standard deviation that all share."""
        counts = shadows.sum(0)
        total = np.where(shadows, self.sure, 0.0).sum(0)
        # A candidate that no shadow trained on, or all did, is judged by all of them.
        mean = np.where(counts > 0, total / np.maximum(counts, 1), self.sure.mean(0))
        squares = np.where(shadows, (self.sure - mean) ** 2, 0.0).sum()
        return mean, float(np.sqrt(squares / max(counts.sum() - np.count_nonzero(counts), 1)) + 1e-6)

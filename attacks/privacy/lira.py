"""The likelihood-ratio attack, online. Carlini et al., Membership inference attacks from first principles, S&P 2022.

Shadow models are updates here: of simulated participants, from the same global model behind the same defense.
"""

from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.privacy.membership import MembershipAttack, Server
from fflbench.registration import privacy_attack
from fflbench.types import Indices, Vector

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
    def rehearses(self) -> bool:
        return True

    def prepare(self, server: Server, suspects: Indices) -> None:
        pool = np.union1d(suspects, server.auxiliary)
        size, people = min(server.size, len(pool) // 2), server.people
        held = [server.rng.choice(pool, size, replace=False) for _ in range(-(-self.shadows // people) * people)]
        groups = [held[first : first + people] for first in range(0, len(held), people)]
        sure, inside = [], []
        for sight in server.rehearse(groups, "shadows"):
            own = np.concatenate([groups[sight.group][who] for who in sight.observed.people])
            for update in sight.observed.updates:
                sure.append(server.examine.confidences(server.after(update), suspects).cpu().numpy())
                inside.append(np.isin(suspects, own))
        self.suspects, self.sure = suspects, np.stack(sure)
        self.with_it, self.without = self._normal(np.stack(inside)), self._normal(~np.stack(inside))

    def judge(self, server: Server, update: Vector, suspects: Indices) -> "Tensor":
        import torch

        seen = server.examine.confidences(server.after(update), suspects)
        places = np.searchsorted(self.suspects, suspects)
        density = []
        for mean, deviation in (self.with_it, self.without):
            apart = (seen.cpu().numpy() - mean[places]) / deviation
            density.append(-(apart**2) / 2 - np.log(deviation))
        return torch.from_numpy(density[0] - density[1])

    def _normal(self, chosen: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.float64], float]:
        """Return each suspect's mean over the chosen shadows, and the standard deviation that all share."""
        counts = chosen.sum(0)
        total = np.where(chosen, self.sure, 0.0).sum(0)
        # A suspect that no shadow trained on, or all did, is judged by all of them.
        mean = np.where(counts > 0, total / np.maximum(counts, 1), self.sure.mean(0))
        squares = np.where(chosen, (self.sure - mean) ** 2, 0.0).sum()
        return mean, float(np.sqrt(squares / max(counts.sum() - np.count_nonzero(counts), 1)) + 1e-6)

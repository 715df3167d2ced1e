"""Local differential privacy by the Gaussian mechanism (Dwork and Roth, The algorithmic foundations of differential
privacy, 2014), on each update of federated averaging, as Geyer et al. (arXiv:1712.07557) clip it.
"""

import functools
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Lt

from fflbench.federation import Defense, Sent, ServerView
from fflbench.federation.defense import Setting, require_updates
from fflbench.kernels import finite_rows, row_norms, weighted_mean
from fflbench.randomness import stream
from fflbench.registry import defense
from fflbench.types import Indices, Matrix, Vector


@defense("ldp", title="Local differential privacy")
class LDP(Defense):
    r"""Clip each update and add noise before anybody sees it, then average by examples.

    $$ \tilde x_k = x_k \min\!\left(1, \frac{C}{\lVert x_k \rVert}\right) + \mathcal{N}(0, (z C)^2 I) $$

    Whoever looks at a participant's submissions cannot tell its updates from any others: replacing one moves the
    clipped row by 2C at most, so a round is a Gaussian mechanism of noise multiplier z/2, and the rounds a participant
    takes part in compose. Buffers travel in the same row and are clipped and noised with it. Numbers of examples are
    sent as they are, and noise of floating-point numbers is not exactly normal: both are outside the promise.
    """

    clip: Annotated[float, Gt(0), "C, the largest norm of an update"] = 1.0
    noise: Annotated[float, Ge(0), "z, the noise's deviation as a multiple of the clip"] = 1.0
    delta: Annotated[float, Gt(0), Lt(1), "the chance with which the promise may fail"] = 1e-5

    @staticmethod
    def missing() -> str:
        return "" if find_spec("dp_accounting") else 'ldp needs a privacy accountant: pip install "fflbench[dp]"'

    def begin(self, setting: Setting) -> None:
        super().begin(setting)
        self.memory["taken part"] = np.zeros(setting.participants, np.int64)

    def transmit(self, round: int, weights: Vector, selected: Indices, sent: Sent) -> ServerView:
        self.memory["taken part"][selected] += 1
        rows = self._noised(sent.submitted, round, selected)
        return super().transmit(round, weights, selected, Sent(rows, rows))

    def aggregate(self, view: ServerView) -> Vector:
        require_updates(view)
        return weighted_mean(view.updates, view.sizes)

    def report(self) -> dict[str, Any]:
        return {"epsilon": self.guarantee()["epsilon"]}

    def flags(self) -> list[str]:
        return ["attackers are taken to clip and add noise like everybody, which nothing forces them to do"]

    def guarantee(self) -> dict[str, Any]:
        """What is promised to whoever took part most often."""
        rounds = int(self.memory["taken part"].max())
        spent = None if self.noise == 0 else epsilon(self.noise, rounds, self.delta)
        return {"epsilon": spent, "delta": self.delta, "rounds": rounds}

    def _noised(self, rows: Matrix, round: int, selected: Indices) -> Matrix:
        """What each participant makes of its own row; one that is not finite becomes noise alone, and unseen."""
        rows[~finite_rows(rows)] = 0
        norms = np.maximum(row_norms(rows), np.finfo(np.float64).tiny)
        rows *= np.minimum(1, self.clip / norms)[:, None].astype(np.float32)
        for who, row in zip(selected, rows, strict=True):
            rng = stream(self.setting.seed, "privacy noise", round, int(who))
            row += np.float32(self.noise * self.clip) * rng.standard_normal(len(row), np.float32)
        return rows


@functools.cache
def epsilon(noise: float, rounds: int, delta: float) -> float:
    """The epsilon of so many rounds, by Renyi differential privacy (Mironov, CSF 2017): an upper bound."""
    if rounds == 0:
        return 0.0
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    # In units of the sensitivity, which for replacing an update by any other is twice the clip.
    accountant.compose(GaussianDpEvent(noise / 2), rounds)
    return float(accountant.get_epsilon(delta))

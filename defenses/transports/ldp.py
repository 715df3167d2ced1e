"""Local differential privacy by the Gaussian mechanism."""

import functools
import time
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Lt

from fflbench.plugin import (
    Entropy,
    Indices,
    Matrix,
    Setting,
    Transcript,
    Transport,
    Upload,
    Vector,
    finite_rows,
    row_norms,
    transport,
)


@transport(
    "ldp",
    title="Local differential privacy",
    citation="Local differential privacy by the Gaussian mechanism (Dwork and Roth, The algorithmic foundations of "
    "differential privacy, 2014), on each update of federated averaging, as Geyer et al. (arXiv:1712.07557) clip it.",
)
class LDP(Transport):
    r"""Clip each update and add noise before anybody sees it.

    $$ \tilde x_k = x_k \min\!\left(1, \frac{C}{\lVert x_k \rVert}\right) + \mathcal{N}(0, (z C)^2 I) $$

    An observer of a participant's submissions cannot distinguish its updates from any others: replacing one moves the
    clipped row by 2C at most, so a round is a Gaussian mechanism of noise multiplier z/2, and the rounds a participant
    takes part in compose. Buffers are in the same row and are clipped and noised with it. Numbers of examples are sent
    in the clear, and floating-point noise is not exactly normal: the guarantee covers neither.
    """

    clip: Annotated[float, Gt(0), "C, the largest norm of an update"] = 1.0
    noise: Annotated[float, Ge(0), "z, the noise's deviation as a multiple of the clip"] = 1.0
    delta: Annotated[float, Gt(0), Lt(1), "probability with which the guarantee may fail"] = 1e-5

    @staticmethod
    def missing_dependency() -> str:
        return "" if find_spec("dp_accounting") else 'ldp needs a privacy accountant: pip install "fflbench[dp]"'

    def begin(self, setting: Setting, entropy: Entropy) -> None:
        super().begin(setting, entropy)
        self.memory["taken part"] = np.zeros(setting.participants, np.int64)

    def transmit(self, upload: Upload) -> Transcript:
        self.memory["taken part"][upload.participants] += 1
        start = time.perf_counter()
        self._clip_and_add_noise(upload)
        seconds = time.perf_counter() - start
        transcript = self.submitted(upload)
        transcript.seconds["participants"] = seconds
        transcript.facts["epsilon"] = self.guarantee()["epsilon"]
        return transcript

    def expected_rows(self, who: Indices, updates: Matrix, model: Vector) -> Matrix:
        """Return clipped updates, around which the noise is centred."""
        clipped = updates.copy()
        self._clip(clipped)
        return clipped

    def flags(self) -> list[str]:
        return ["attackers are taken to clip and add noise like everybody, which nothing forces them to do"]

    def guarantee(self) -> dict[str, Any]:
        """Return the guarantee for the participant that took part most often."""
        rounds = int(self.memory["taken part"].max())
        spent = None if self.noise == 0 else composed_epsilon(self.noise, rounds, self.delta)
        return {"epsilon": spent, "delta": self.delta, "rounds": rounds}

    def _clip_and_add_noise(self, upload: Upload) -> None:
        """Clip each row and add noise to it; a row that is not finite becomes noise alone."""
        self._clip(upload.rows)
        for who, row in zip(upload.participants, upload.rows, strict=True):
            rng = self.entropy.generator("privacy noise", upload.round, int(who))
            row += np.float32(self.noise * self.clip) * rng.standard_normal(len(row), np.float32)

    def _clip(self, rows: Matrix) -> None:
        rows[~finite_rows(rows)] = 0
        norms = np.maximum(row_norms(rows), np.finfo(np.float64).tiny)
        rows *= np.minimum(1, self.clip / norms)[:, None].astype(np.float32)


@functools.cache
def composed_epsilon(noise: float, rounds: int, delta: float) -> float:
    """Return an upper bound on the epsilon of so many rounds, by Renyi differential privacy (Mironov, CSF 2017)."""
    if rounds == 0:
        return 0.0
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    # In units of the sensitivity, which for replacing an update by any other is twice the clip.
    accountant.compose(GaussianDpEvent(noise / 2), rounds)
    return float(accountant.get_epsilon(delta))

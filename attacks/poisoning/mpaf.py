"""MPAF. Cao, Gong, Model poisoning attacks to federated learning based on fake clients, CVPR workshops 2022."""

from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.plugin import Attack, AttackSetting, Known, Matrix, Vector, attack

from ._crafted_rows import send_without_data


@attack("mpaf", title="MPAF", knows=[])
class Mpaf(Attack):
    r"""Drag the global model w towards a random base model, as fake participants without data.

    $$ \lambda (w' - w) $$

    The base model w' is a new random initialisation, the same for all attackers and rounds; in the code of PoisonedFL,
    by the same group, it is the federation's first model. Other code takes a lambda of 3 to 10. Buffers are sent
    unchanged.
    """

    scale: Annotated[float, Gt(0), "lambda"] = 1e6

    def begin(self, setting: AttackSetting) -> None:
        super().begin(setting)
        self.memory["base_model"] = random_model(setting)

    def poison_updates(self, known: Known) -> Matrix:
        parameters = known.columns.parameters
        change = self.memory["base_model"][parameters].astype(np.float64) - known.weights[parameters]
        return send_without_data(known, self.scale * change)


def random_model(setting: AttackSetting) -> Vector:
    """Return a new model of the task as a vector, or normal values where only a matrix of updates is given."""
    if not setting.columns.spans:
        return setting.rng.standard_normal(setting.columns.count, dtype=np.float32)
    import torch

    from fflbench.plugin import FlatModel, new_model

    model = new_model(setting.task, int(setting.rng.integers(2**63)))
    weights: Vector = FlatModel(model, torch.device("cpu")).flat.numpy()
    return weights

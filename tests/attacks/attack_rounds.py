"""Rounds of an attack beside given honest updates and global models."""

import numpy as np

from fflbench import registry
from fflbench.federation import Columns
from fflbench.federation.attack import AttackSetting, poison_rows
from fflbench.registry import Kind


def close(found, wanted, rows, rtol=1e-4):
    """Assert equality up to rounding, by the size of the updates."""
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.abs(rows).max(initial=1e-30))


def create(name, **parameters):
    return registry.get(Kind.ATTACK, name).create(**parameters)


class Rounds:
    """Rounds of an attack beside given honest updates and global models, with its memory."""

    def __init__(self, name, d, seed=0, **parameters):
        self.attack, self.d, self.round = create(name, **parameters), d, 0
        self.columns = Columns.of_length(d)
        self.attack.begin(AttackSetting(None, np.array([0, 1]), self.columns, np.random.default_rng(seed)))

    def send(self, honest, model=None, attackers=2):
        """Return the attackers' rows of the next round."""
        honest = np.asarray(honest, np.float32).reshape(-1, self.d)
        updates = np.vstack([np.zeros((attackers, self.d), np.float32), honest])
        poison_rows(
            self.attack,
            updates,
            selected=np.arange(len(updates)),
            attackers=np.arange(attackers),
            round=self.round,
            weights=np.zeros(self.d, np.float32) if model is None else np.asarray(model, np.float32),
            columns=self.columns,
            task=None,
            seed=0,
            simulate=lambda rows, **known: None,
            loss=lambda weights, participants: 0.0,
        )
        self.round += 1
        return updates[:attackers]

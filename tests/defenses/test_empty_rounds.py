"""Every defense is asked for an aggregate in every round, also where no row is left."""

from dataclasses import dataclass

import numpy as np
import pytest

from fflbench import registry
from fflbench.federation import Attack
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.defenses.ffl_cells import create
from tests.played import finished


@dataclass(kw_only=True)
class SendsInfinity(Attack):
    def poison_updates(self, known):
        return np.full_like(known.updates, np.inf)


@pytest.mark.parametrize("name", [entry.name for entry in registry.entries(Kind.DEFENSE)])
def test_a_round_without_a_finite_row_reaches_the_defense_and_keeps_the_model(name, monkeypatch):
    it = Federation(create(Kind.TASK, "digits-mlp", rounds=2), SendsInfinity(share=1.0), create(Kind.DEFENSE, name), 0)
    asked, inherited = [], it.defense.aggregate

    def spying(view):
        asked.append(len(view.updates))
        return inherited(view)

    monkeypatch.setattr(it.defense, "aggregate", spying)
    before = it.weights.copy()
    told = finished(it).history
    if name == "ldp":
        # Rows are clipped and noised where they are made, so that all arrive.
        assert asked == [10, 10]
        return
    assert asked == [0, 0]
    assert [each["kept_because"] for each in told] == ["no update was left"] * 2
    np.testing.assert_array_equal(it.weights, before)

"""Every rule is asked for an aggregate in every round, also where no row is left."""

from dataclasses import dataclass

import numpy as np
import pytest

from fflbench import registry
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.federation.rule import FunctionRule
from fflbench.registry import Kind


@dataclass(kw_only=True)
class SendsInfinity(Attack):
    def poison_updates(self, known):
        return np.full_like(known.updates, np.inf)


KINDS = (Kind.RULE, Kind.TRANSPORT, Kind.DEFENSE)
PREAGGREGATED = [f"{entry.name} + median" for entry in registry.entries(Kind.PREAGGREGATION)]


@pytest.mark.parametrize("name", [*(entry.name for kind in KINDS for entry in registry.entries(kind)), *PREAGGREGATED])
def test_a_round_without_a_finite_row_reaches_the_rule_and_keeps_the_model(name, monkeypatch):
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=2, root_examples=10)
    it = Federation(task, SendsInfinity(share=1.0), chain.defense(name), 0)
    asked, rule = [], it.defense.rule
    method = "aggregate_with" if isinstance(rule, FunctionRule) else "aggregate"
    inherited = getattr(rule, method)

    def spying(view, *others):
        asked.append(len(view.rows))
        return inherited(view, *others)

    monkeypatch.setattr(rule, method, spying)
    before = it.weights.copy()
    told = [it.run_round() for _ in range(2)]
    if name == "ldp":
        # Rows are clipped and noised where they are made, so that all arrive.
        assert asked == [10, 10]
        return
    assert asked == [0, 0]
    assert [each["kept_because"] for each in told] == ["no update was left"] * 2
    np.testing.assert_array_equal(it.weights, before)

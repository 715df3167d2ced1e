import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks import rules

OTHERS = ("Median", "TrMean", "MultiKrum", "NNM", "Bucketing", "Clipping", "ARC")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(rules, "SIZES", ((5, 300),))
    # The benchmark uses all cores.
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)


@pytest.fixture
def byzfl(monkeypatch):
    """A stand-in for ByzFL, which need not be installed: every method keeps its input."""
    given = {}

    def method(name):
        return lambda **parameters: lambda rows: given.setdefault(name, (parameters, rows.clone()))

    monkeypatch.setitem(sys.modules, "byzfl", SimpleNamespace(**{name: method(name) for name in OTHERS}))
    return given


def test_rules_are_compared_with_torch_and_byzfl_and_pre_aggregations_with_byzfl_alone(small, byzfl):
    assert {each.against for each in rules.measure_ratios(peers=False)} == {"torch"}
    found = {(each.what.split(",")[0], each.against) for each in rules.measure_ratios(peers=True)}
    assert found == {
        *((rule, against) for rule in ("median", "trimmed-mean", "multi-krum") for against in ("torch", "ByzFL")),
        *((name, "ByzFL") for name in rules.PREAGGREGATIONS),
    }
    # Both sides begin with the same rows, although each overwrites them.
    for name in OTHERS[4:]:
        torch.testing.assert_close(byzfl[name][1], byzfl["NNM"][1], rtol=0, atol=0)
        assert byzfl[name][1].norm(dim=1).min() > 10

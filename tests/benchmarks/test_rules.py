import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks import rules

PREAGGREGATIONS = ("NNM", "Bucketing", "Clipping", "ARC")
OTHERS = [method.peer for method in (*rules.RULES, *rules.PREAGGREGATIONS)]
SEARCHES = {f"optimal-inner-product against {rule}" for rule in rules.SEARCHED}
CALLS = "the calls of the rule that it makes"
LIMIT = "numpy's sum over rows, on as many threads"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(rules, "SIZES", {"many": (5, 300), "few": (5, 200)})
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


def test_rules_are_compared_with_torch_byzfl_and_the_limit_and_pre_aggregations_with_byzfl_alone(small, byzfl):
    assert {each.against for each in rules.measure_ratios(peers=False)} == {"torch", LIMIT, CALLS}
    found = {(each.what.split(",")[0], each.against) for each in rules.measure_ratios(peers=True)}
    assert found == {
        *((rule, "torch") for rule in ("median", "trimmed-mean", "multi-krum")),
        *((rule, LIMIT) for rule in ("median", "trimmed-mean")),
        *((search, CALLS) for search in SEARCHES),
        *((method.name, "ByzFL") for method in (*rules.RULES, *rules.PREAGGREGATIONS)),
    }
    assert byzfl["TrMean"][0] == {"f": 1}
    # Both sides begin with the same rows, although each overwrites them.
    for name in PREAGGREGATIONS:
        torch.testing.assert_close(byzfl[name][1], byzfl["NNM"][1], rtol=0, atol=0)
        assert byzfl[name][1].norm(dim=1).min() > 10


def test_the_limit_is_the_sum_over_rows():
    updates = np.random.default_rng(0).normal(size=(7, 300)).astype(np.float32)
    np.testing.assert_allclose(rules._sum_over_rows(updates), updates.sum(0), rtol=1e-5, atol=1e-5)

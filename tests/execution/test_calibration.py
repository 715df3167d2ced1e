"""Estimates of how long cells take."""

import time

import pytest

from fflbench.execution import run_suite
from fflbench.execution.cells_to_run import RunPlan
from fflbench.execution.estimates import estimate_seconds
from fflbench.federation import Rule, Transport
from fflbench.records.store import Store
from fflbench.registration import rule, transport
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


@pytest.fixture
def slow_defenses(own_registry):
    """Defenses that are slow outside of training, which a calibration of training alone would miss."""

    @rule("slow-start", title="Slow start")
    class SlowStart(Rule):
        """Sleeps before the first round."""

        def begin(self, setting):
            super().begin(setting)
            time.sleep(0.3)

        def aggregate(self, view, rng):
            return view.rows.mean(0)

    @transport("slow-way", title="Slow way")
    class SlowWay(Transport):
        """Sleeps on the way to the server."""

        def transmit(self, upload):
            time.sleep(0.05)
            return self.submitted(upload)

    @rule("slow-rule", title="Slow rule")
    class SlowRule(Rule):
        """Sleeps at the server."""

        def aggregate(self, view, rng):
            time.sleep(0.05)
            return view.rows.mean(0)

    @rule("never-answers", title="Never answers")
    def never_answers(updates):
        """Waits for ever, and for anything that could go wrong."""
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue


def estimates(*defenses, **overrides):
    content = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": list(defenses), "seeds": [0]}
    return estimate_seconds(plan(parse({**content, "overrides": overrides}, "own", "own.toml")))


def test_the_work_of_defenses_is_part_of_an_estimate(slow_defenses):
    start, rounds = estimates("slow-start", "slow-way + slow-rule", rounds=30)
    assert start > 0.3
    assert rounds > 30 * 0.1


def test_a_defense_of_large_models_is_timed_on_shorter_updates(slow_defenses, monkeypatch):
    monkeypatch.setattr("fflbench.federation.time_estimates.VALUES", 10_000)
    (shortened,) = estimates("slow-way + slow-rule", rounds=1)
    # Its sleep counts as work on each of the columns that were left out.
    assert shortened > 0.2


def test_a_defense_that_never_answers_is_given_up(slow_defenses, monkeypatch):
    monkeypatch.setattr("fflbench.federation.time_estimates.LIMIT", 0.2)
    (found,) = estimates("never-answers", rounds=10)
    assert found > 10 * 0.2


def test_an_attack_that_simulates_rounds_takes_longer_than_one_that_does_not(slow_defenses):
    suite = {"tasks": ["digits-mlp"], "attacks": ["optimal-inner-product", "none"], "defenses": ["slow-rule"]}
    content = {**suite, "seeds": [0], "overrides": {"rounds": 2}}
    searching, idle = estimate_seconds(plan(parse(content, "own", "own.toml")))
    assert searching > idle + 2 * 20 * 0.05


def test_training_is_timed_on_the_device_that_is_asked_for(monkeypatch):
    timed = []
    monkeypatch.setattr(
        "fflbench.federation.time_estimates.seconds_per_round", lambda task, device: timed.append(device) or 1.0
    )
    suite = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": ["fedavg"], "seeds": [0]}
    (found,) = estimate_seconds(plan(parse(suite, "own", "own.toml")), "cuda")
    assert timed == ["cuda"]
    assert found >= 30


@pytest.mark.parametrize(("device", "expected"), [("cpu", 10), ("cuda", 40)])
def test_cells_side_by_side_share_a_gpu(monkeypatch, tmp_path, device, expected):
    monkeypatch.setattr(run_suite, "estimate_seconds", lambda cells, device: [10.0] * len(cells))
    suite = {"tasks": ["imdb-bilstm"], "attacks": ["none"], "defenses": ["fedavg"], "seeds": [0, 1, 2, 3]}
    planned = RunPlan("own", "Own", Store(tmp_path), plan(parse(suite, "own", "own.toml")))
    assert run_suite.estimate_run_seconds(planned, 4, device) == pytest.approx(expected + run_suite.START_UP)

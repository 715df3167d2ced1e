"""Local differential privacy: what is sent, and what is promised, against the exact Gaussian mechanism."""

import math

import numpy as np
import pytest
from fflbench.defenses.transports import ldp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr

from fflbench import plugin, registry
from fflbench.errors import SuiteError
from fflbench.federation import Columns, Setting, chain
from fflbench.federation.attack import Attack
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.played import finished

COLUMNS = 20_000


def guarded(people=4, rule="fedavg", **parameters):
    defense = chain.defense(f"ldp + {rule}", **parameters)
    defense.begin(Setting(people, people, np.arange(1, people + 1), Columns.of_length(COLUMNS)), 0)
    return defense


def sent_through(defense, updates, round=0):
    return defense.transmit(round, np.zeros(COLUMNS, np.float32), np.arange(len(updates)), updates.copy())


def rows_through(defense, updates, round=0):
    return sent_through(defense, updates, round).server.rows


def test_long_updates_are_cut_to_the_clip_and_short_ones_left():
    updates = np.random.default_rng(0).normal(size=(4, COLUMNS)).astype(np.float32)
    updates[0] *= 0.5 / np.linalg.norm(updates[0])
    rows = rows_through(guarded(clip=2.0, noise=0.0), updates)
    np.testing.assert_allclose(rows[0], updates[0], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(rows[1:], axis=1), 2.0, rtol=1e-5)
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(rows, updates, strict=True)]
    np.testing.assert_allclose(cosines, 1.0, rtol=1e-5)


def test_noise_has_the_deviation_it_is_accounted_with_and_never_repeats():
    defense, nothing = guarded(clip=2.0, noise=1.5), np.zeros((4, COLUMNS), np.float32)
    first, second = (rows_through(defense, nothing, round) for round in (0, 1))
    np.testing.assert_allclose(first.std(1), 3.0, rtol=0.02)
    rows = np.concatenate([first, second])
    assert np.abs(np.corrcoef(rows) - np.eye(8)).max() < 0.05


def test_a_row_that_is_no_number_is_sent_as_noise_like_any_other():
    updates = np.ones((4, COLUMNS), np.float32)
    updates[1, 7] = np.nan
    rows = rows_through(guarded(clip=1.0, noise=1.0), updates)
    assert np.isfinite(rows).all()
    assert rows[1].std() == pytest.approx(1.0, rel=0.05)


def test_any_rule_works_on_the_noisy_rows():
    updates = np.random.default_rng(0).normal(size=(5, COLUMNS)).astype(np.float32)
    found = {}
    for rule in ("fedavg", "median"):
        defense = guarded(5, rule, clip=2.0, noise=1.5)
        transcript = sent_through(defense, updates)
        found[rule] = transcript.server.rows.copy()
        wanted = np.average(found[rule], axis=0, weights=[1, 2, 3, 4, 5])
        wanted = np.median(found[rule], axis=0) if rule == "median" else wanted
        np.testing.assert_allclose(defense.aggregate(transcript), wanted, rtol=1e-5, atol=1e-6)
        assert transcript.facts["epsilon"] == ldp.composed_epsilon(1.5, 1, 1e-5)
    np.testing.assert_array_equal(found["fedavg"], found["median"])


def exact_epsilon(noise, rounds, delta):
    """Balle and Wang, Improving the Gaussian mechanism, ICML 2018: of one mechanism, which several compose to."""
    moved = 2 / noise * math.sqrt(rounds)

    def beyond(epsilon):
        return (
            math.exp(log_ndtr(moved / 2 - epsilon / moved))
            - math.exp(epsilon + log_ndtr(-moved / 2 - epsilon / moved))
            - delta
        )

    return brentq(beyond, 0, 2 * moved**2 + 100 * moved)


@given(st.floats(0.5, 50), st.integers(1, 100), st.sampled_from([1e-6, 1e-5, 1e-3]))
def test_epsilon_is_that_of_replacing_an_update_composed_over_rounds(noise, rounds, delta):
    exact = exact_epsilon(noise, rounds, delta)
    found = ldp.composed_epsilon(noise, rounds, delta)
    assert exact <= found * (1 + 1e-6)
    assert found <= 1.25 * exact + 0.1


def test_the_promise_is_to_whoever_took_part_most_often():
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=6)
    defense = chain.defense("ldp", noise=2.0)
    federation = Federation(task, Attack(share=0.0), defense, 0)
    outcome = finished(federation)
    most = max(np.bincount(np.concatenate([defense.select(round) for round in range(6)])))
    assert outcome.facts["guarantee"] == {
        "epsilon": ldp.composed_epsilon(2.0, int(most), 1e-5),
        "delta": 1e-5,
        "rounds": most,
    }
    spent = [told["epsilon"] for told in outcome.history]
    assert spent == sorted(spent)
    again = Federation(task, Attack(share=0.0), chain.defense("ldp", noise=2.0), 0)
    again.restore(federation.state())
    assert again.defense.transport.guarantee() == defense.transport.guarantee()


def test_no_noise_promises_nothing():
    assert guarded(noise=1.0).transport.guarantee()["epsilon"] == 0
    defense = guarded(noise=0.0)
    sent_through(defense, np.ones((4, COLUMNS), np.float32))
    assert defense.transport.guarantee()["epsilon"] is None


def test_without_an_accountant_it_says_how_to_get_one(monkeypatch, own_registry):
    plugin.chain("private", "ldp + median", title="Private")

    def planned(*defenses):
        suite = {"tasks": ["digits-mlp"], "attacks": ["none"], "defenses": list(defenses), "seeds": [0]}
        return {cell.labels["defense"] for cell in plan(parse(suite, "test", "test"))}

    assert {"private", "fedavg"} <= planned("*")
    monkeypatch.setattr(ldp, "find_spec", lambda _: None)
    for defense in ("ldp", "ldp + median", "private"):
        with pytest.raises(SuiteError, match=r'pip install "fflbench\[dp\]"'):
            planned(defense)
    assert "private" not in planned("*")

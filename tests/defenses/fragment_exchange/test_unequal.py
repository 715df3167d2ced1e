"""The exchange and FFL where participants hold unequal numbers of examples."""

import numpy as np
import pytest
from fflbench.defenses.rules import reputation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.crypto import keystream
from fflbench.federation import Columns, Setting, chain
from tests.defenses.fragment_exchange.cells import cell, rows_by_sender


@st.composite
def rounds(draw, **parameters):
    """A defense in its first round, with unequal sizes, uneven reputations, a model and updates."""
    n, d = 2 * draw(st.integers(1, 5)), draw(st.integers(2, 12))
    sizes = np.array(draw(st.lists(st.integers(20, 400), min_size=n, max_size=n)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    defense = chain.defense("ffl", **parameters)
    defense.begin(Setting(n, n, sizes, Columns.of_length(d)), int(rng.integers(2**31)))
    defense.rule.memory["global"][:] = rng.normal(size=n)
    return defense, rng.normal(size=d).astype(np.float32), rng.normal(size=(n, d)).astype(np.float32)


def transmitted(defense, model, changes):
    return defense.transmit(0, model, np.arange(len(changes)), changes.copy())


def observed_masks(patch):
    """Every mask that is made, by the pair it is made for."""
    masks, made = {}, keystream.random_mask

    def spying(secret, round, initiator, acceptor, size):
        masks[frozenset((initiator, acceptor))] = made(secret, round, initiator, acceptor, size)
        return masks[frozenset((initiator, acceptor))]

    patch.setattr(keystream, "random_mask", spying)
    return masks


def line_18(model, changes, sizes, trust, masks):
    """Protocol 1: whole models times d_k, mixed, times trust, over the sum of all d; one coordinate at a time."""
    sent = [
        [float(d) * (float(w) + float(c)) for w, c in zip(model, row, strict=True)]
        for d, row in zip(sizes, changes, strict=True)
    ]
    mixed = [list(row) for row in sent]
    for pair, mask in masks.items():
        k, j = pair
        for i, swapped in enumerate(mask):
            if swapped:
                mixed[k][i], mixed[j][i] = sent[j][i], sent[k][i]
    return [sum(trust[k] * mixed[k][i] for k in range(len(mixed))) / float(sum(sizes)) for i in range(len(model))]


@settings(max_examples=60, deadline=None)
@given(rounds(normalise="literal"))
def test_the_literal_division_is_line_18_whatever_the_sizes(made):
    defense, model, changes = made
    with pytest.MonkeyPatch.context() as patch:
        masks = observed_masks(patch)
        transcript = transmitted(defense, model, changes)
    found = model + defense.aggregate(transcript)
    trust = [defense.rule.trust[k] for k in range(len(changes))]
    wanted = line_18(model, changes, defense.setting.sizes, trust, masks)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5)


@settings(max_examples=30, deadline=None)
@given(rounds(normalise="literal"))
def test_literal_scores_are_of_whole_models_less_the_global_one(made):
    """The paper's gradient is W - (W_k)_mix, whatever that holds."""
    defense, model, changes = made
    sizes = defense.setting.sizes
    with pytest.MonkeyPatch.context() as patch:
        masks = observed_masks(patch)
        view = transmitted(defense, model, changes).server
    models = (sizes / sizes.mean())[:, None] * (model + changes.astype(np.float64))
    for (k, j), mask in masks.items():
        models[[k, j]] = np.where(mask, models[[j, k]], models[[k, j]])
    np.testing.assert_allclose(view.rows, models - model, rtol=1e-4, atol=1e-5)


def test_the_papers_division_shrinks_the_model_wherever_trust_is_below_one():
    it = cell(defense_parameters={"normalise": "literal"})
    it.defense.rule.memory["global"][:] = np.linspace(0, 0.5, 20)
    still = np.zeros((10, it.model.columns.count), np.float32)
    transcript = it.transmit(np.arange(10, 20), still)
    shrunk = np.linalg.norm(it.weights + it.defense.aggregate(transcript)) / np.linalg.norm(it.weights)
    trust = np.array(list(it.defense.rule.trust.values()))
    assert 0 < trust.mean() < 1
    assert shrunk == pytest.approx(trust.mean(), abs=0.01)


@pytest.mark.parametrize("mode", ["fast", "full"])
@pytest.mark.parametrize("parameters", [{"weighting": "equal"}, {"normalise": "literal"}], ids=str)
def test_a_watched_participant_sees_its_update_as_it_went_into_the_exchange(mode, parameters):
    """Where a row is not its partner's it is bit for bit the participant's own, however updates are scaled."""
    it = cell(partition="dirichlet", defense_parameters={"mode": mode, **parameters})
    selected = it.select()
    transcript = it.transmit(selected, it.train(selected), watch=selected.tolist())
    own = {who: view.update for who, view in transcript.participants.items()}
    for who, row in rows_by_sender(transcript.server).items():
        partner = transcript.participants[who].extra["partner"]
        assert partner == it.defense.transport.partner[who]
        assert ((row == own[who]) | (row == own[partner])).all()
        # Some coordinates are 0 for everybody.
        assert 0.4 < (row == own[who]).mean() < 0.7


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds(weighting="equal"))
def test_with_equal_weighting_and_trust_the_aggregate_is_the_mean_of_the_submitters_changes(monkeypatch, made):
    defense, model, changes = made
    monkeypatch.setattr(reputation, "similarity_scores", lambda updates, *_: np.ones(len(updates)))
    defense.rule.memory["global"][:] = 0
    transcript = transmitted(defense, model, changes)
    wanted = changes.astype(np.float64).mean(0)
    np.testing.assert_allclose(defense.aggregate(transcript), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["median", "trimmed-mean"])
def test_with_equal_weighting_rows_and_aggregate_are_unscaled(rule):
    it = cell(defense=f"fragment-exchange + {rule}", partition="dirichlet", defense_parameters={"weighting": "equal"})
    selected = it.select()
    updates = it.train(selected)
    original = updates.copy()
    transcript = it.transmit(selected, updates)
    view = transcript.server
    np.testing.assert_allclose(np.sort(view.rows, axis=0), np.sort(original, axis=0))
    np.testing.assert_allclose(it.defense.aggregate(transcript), aggregate(rule, original), rtol=1e-5, atol=1e-7)
    # The server is told the numbers of examples all the same.
    assert view.sizes.tolist() == it.defense.setting.sizes[view.participants].tolist()
    assert view.scale == 1


def test_equal_weighting_does_not_punish_those_who_hold_much_data():
    """Everyone trains alike, but two hold forty times the examples: scaled rows make them outliers."""
    rng = np.random.default_rng(0)
    sizes = np.array([10] * 8 + [400] * 2)
    common = rng.normal(size=50)
    reputation = {}
    for weighting in ("examples", "equal"):
        defense = chain.defense("ffl", weighting=weighting)
        defense.begin(Setting(10, 10, sizes, Columns.of_length(50)), 0)
        for round in range(10):
            rows = (common + 0.1 * rng.normal(size=(10, 50))).astype(np.float32)
            transcript = defense.transmit(round, np.zeros(50, np.float32), np.arange(10), rows)
            if len(transcript.server.rows):
                defense.aggregate(transcript)
        ranks = np.argsort(np.argsort(defense.rule.memory["global"]))
        reputation[weighting] = ranks[8:].mean()
    assert reputation["examples"] < 3 < reputation["equal"]


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_the_mean_is_by_examples_of_those_whose_rows_are_finite(mode):
    sizes, rng = np.array([10, 400, 30, 250, 70, 20]), np.random.default_rng(0)
    defense = chain.defense("fragment-exchange", mode=mode)
    defense.begin(Setting(6, 6, sizes, Columns.of_length(40)), seed=0)
    changes = rng.normal(size=(6, 40)).astype(np.float32)
    planted = changes.copy()
    planted[1] = np.nan
    transcript = transmitted(defense, np.zeros(40, np.float32), planted)
    rest = transcript.server.participants
    assert sorted(transcript.server.dropped.tolist()) == sorted({1, defense.transport.partner[1]})
    wanted = aggregate("fedavg", changes[rest], weights=sizes[rest])
    np.testing.assert_allclose(defense.aggregate(transcript), wanted, rtol=1e-5, atol=1e-6)

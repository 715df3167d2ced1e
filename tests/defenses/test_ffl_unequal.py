"""FFL where participants hold unequal numbers of examples."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.crypto import pads
from fflbench.federation import Columns, Sent
from fflbench.federation.defense import Setting
from fflbench.registry import Kind
from tests.defenses.ffl_cells import cell, create
from tests.played import finished


@st.composite
def rounds(draw, **parameters):
    """A defense in its first round, with unequal sizes, uneven reputations, a model and updates."""
    n, d = 2 * draw(st.integers(1, 5)), draw(st.integers(2, 12))
    sizes = np.array(draw(st.lists(st.integers(20, 400), min_size=n, max_size=n)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    defense = create(Kind.DEFENSE, "ffl", **parameters)
    defense.begin(Setting(n, n, sizes, Columns.plain(d), int(rng.integers(2**31))))
    defense.memory["global"][:] = rng.normal(size=n)
    defense.select(0)
    return defense, rng.normal(size=d).astype(np.float32), rng.normal(size=(n, d)).astype(np.float32)


def observed_masks(patch):
    """Every mask that is made, by the pair it is made for."""
    masks, made = {}, pads.mask

    def spying(secret, round, initiator, acceptor, size):
        masks[frozenset((initiator, acceptor))] = made(secret, round, initiator, acceptor, size)
        return masks[frozenset((initiator, acceptor))]

    patch.setattr(pads, "mask", spying)
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
        sent = changes.copy()
        view = defense.transmit(0, model, np.arange(len(sent)), Sent(sent, sent))
    found = model + defense.aggregate(view)
    trust = [defense.trust[k] for k in range(len(changes))]
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
        sent = changes.copy()
        view = defense.transmit(0, model, np.arange(len(sent)), Sent(sent, sent))
    models = (sizes / sizes.mean())[:, None] * (model + changes.astype(np.float64))
    for (k, j), mask in masks.items():
        models[[k, j]] = np.where(mask, models[[j, k]], models[[k, j]])
    np.testing.assert_allclose(view.updates, models - model, rtol=1e-4, atol=1e-5)


def test_the_papers_division_shrinks_the_model_wherever_trust_is_below_one():
    it = cell(defense_parameters={"normalise": "literal"})
    it.defense.memory["global"][:] = np.linspace(0, 0.5, 20)
    selected = np.arange(10, 20)
    still = np.zeros((10, it.model.columns.count), np.float32)
    view = it.defense.transmit(0, it.weights, selected, Sent(still, still))
    shrunk = np.linalg.norm(it.weights + it.defense.aggregate(view)) / np.linalg.norm(it.weights)
    trust = np.array(list(it.defense.trust.values()))
    assert 0 < trust.mean() < 1
    assert shrunk == pytest.approx(trust.mean(), abs=0.01)


@pytest.mark.parametrize("mode", ["fast", "full"])
@pytest.mark.parametrize("name", ["ffl", "ffl-mixing"])
def test_literal_and_equal_choices_expose_what_a_traitor_brought(mode, name):
    """Where a row is not its partner's it is bit for bit what `brought` says, whatever is sent."""
    choices = [{"weighting": "equal"}] + [{"normalise": "literal"}] * (name == "ffl")
    for parameters in choices:
        it = cell(defense=name, partition="dirichlet", defense_parameters={"mode": mode, **parameters})
        selected = it.select()
        updates = it.train(selected)
        brought = it.defense.brought(updates.copy(), selected, it.weights)
        view = it.transmit(selected, Sent(updates, updates))
        place = {int(who): number for number, who in enumerate(selected)}
        for who, row in zip(view.participants.tolist(), view.updates, strict=True):
            own, partners = brought[place[who]], brought[place[it.defense.partner[who]]]
            assert ((row == own) | (row == partners)).all()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds(weighting="equal"))
def test_with_equal_weighting_and_trust_the_aggregate_is_the_mean_of_the_submitters_changes(monkeypatch, made):
    defense, model, changes = made
    monkeypatch.setattr("fflbench.defenses.ffl.scores", lambda updates, *_: np.ones(len(updates)))
    defense.memory["global"][:] = 0
    sent = changes.copy()
    view = defense.transmit(0, model, np.arange(len(sent)), Sent(sent, sent))
    wanted = changes.astype(np.float64).mean(0)
    np.testing.assert_allclose(defense.aggregate(view), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rule", ["median", "trimmed-mean"])
def test_with_equal_weighting_mixing_leaves_rows_and_aggregate_unscaled(rule):
    it = cell(defense="ffl-mixing", partition="dirichlet", defense_parameters={"rule": rule, "weighting": "equal"})
    selected = it.select()
    updates = it.train(selected)
    original = updates.copy()
    view = it.transmit(selected, Sent(updates, updates))
    np.testing.assert_allclose(np.sort(view.updates, axis=0), np.sort(original, axis=0))
    np.testing.assert_allclose(it.defense.aggregate(view), aggregate(rule, original), rtol=1e-5, atol=1e-7)
    # The server is told the numbers of examples all the same.
    assert view.sizes.tolist() == it.defense.setting.sizes[view.participants].tolist()


def test_equal_weighting_does_not_punish_those_who_hold_much_data():
    """Everyone trains alike, but two hold forty times the examples: scaled rows make them outliers."""
    rng = np.random.default_rng(0)
    sizes = np.array([10] * 8 + [400] * 2)
    common = rng.normal(size=50)
    reputation = {}
    for weighting in ("examples", "equal"):
        defense = create(Kind.DEFENSE, "ffl", weighting=weighting)
        defense.begin(Setting(10, 10, sizes, Columns.plain(50), 0))
        for round in range(10):
            defense.select(round)
            rows = (common + 0.1 * rng.normal(size=(10, 50))).astype(np.float32)
            view = defense.transmit(round, np.zeros(50, np.float32), np.arange(10), Sent(rows, rows))
            if len(view.updates):
                defense.aggregate(view)
        ranks = np.argsort(np.argsort(defense.memory["global"]))
        reputation[weighting] = ranks[8:].mean()
    assert reputation["examples"] < 3 < reputation["equal"]


def test_the_share_of_data_held_by_the_excluded_is_told():
    it = cell(partition="dirichlet", rounds=4)
    facts = finished(it).facts
    sizes = it.defense.setting.sizes
    assert facts["share_of_data_excluded"] == pytest.approx(sizes[facts["excluded"]].sum() / sizes.sum())

"""Observations of a server that knows of the exchange, alone and with a colluding participant."""

from dataclasses import replace

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.observations import infer_pairs_by_rank, true_pairs

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.execution.run_cell import run_cell
from fflbench.federation import Columns
from fflbench.federation.chain import defense
from fflbench.registry import Kind
from tests.privacy.observed_rounds import PEOPLE, UPDATES, observe_round, transmit_watched_round
from tests.privacy.test_reconstruction import plan_reconstruction_cells

MODES = pytest.mark.parametrize("mode", ["fast", "full"])


def partners(transcript):
    return {who: view.extra["partner"] for who, view in transcript.participants.items()}


@MODES
def test_an_exchange_hides_updates_but_keeps_the_sum_of_two_partners(mode):
    chain, transcript = transmit_watched_round("ffl", mode=mode)
    for each in observe_round("submission", chain, transcript):
        assert 0.3 < (each.updates[0] == UPDATES[each.participants[0]]).mean() < 0.7
    pairs = observe_round("pair-sum", chain, transcript)
    assert sorted(who for each in pairs for who in each.participants) == list(range(PEOPLE))
    for each in pairs:
        np.testing.assert_allclose(each.updates[0], UPDATES[list(each.participants)].mean(0), rtol=1e-6, atol=1e-7)


@MODES
def test_a_colluding_participant_exposes_its_partner_to_the_bit(mode):
    chain, transcript = transmit_watched_round("ffl", mode=mode)
    found = observe_round("colluding-participant", chain, transcript)
    assert len(found) == PEOPLE / 2
    for each in found:
        np.testing.assert_array_equal(each.updates[0], UPDATES[each.participants[0]])
        assert partners(transcript)[each.participants[0]] < each.participants[0]


@MODES
def test_a_colluding_participant_exposes_its_partner_whatever_their_sizes(mode):
    sizes = np.array([3, 5, 2, 7])
    for each in observe_round("colluding-participant", *transmit_watched_round("ffl", sizes=sizes, mode=mode)):
        wanted = sizes[each.participants[0]] / sizes.mean() * UPDATES[each.participants[0]]
        np.testing.assert_allclose(each.updates[0], wanted, rtol=1e-4, atol=1e-5)


def test_partners_of_those_whose_rows_are_lost_are_not_observed():
    updates = UPDATES.copy()
    updates[0] = np.nan
    chain, transcript = transmit_watched_round("ffl", updates)
    lost = {0, partners(transcript)[0]}
    for name in ("pair-sum", "colluding-participant", "sum"):
        people = {who for each in observe_round(name, chain, transcript) for who in each.participants}
        assert people
        assert not people & lost


def linear_updates(people, batch, rows=10, columns=40, seed=0):
    """Gradients of a linear layer: as many outer products as there are examples."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(rows, batch)) @ rng.normal(size=(batch, columns)) for _ in range(people)]
    return np.stack([matrix.ravel() for matrix in made]).astype(np.float32)


LAYER = replace(Columns.of_length(400), spans={"weight": slice(0, 400)}, shapes={"weight": (10, 40)})


@pytest.mark.parametrize(("people", "batch"), [(2, 1), (4, 1), (10, 1), (10, 2), (6, 4)])
def test_pairs_are_found_from_the_rank_of_their_sums(people, batch):
    updates = linear_updates(people, batch)
    _, transcript = transmit_watched_round("ffl", updates, np.full(people, batch), LAYER, seed=3)
    assert infer_pairs_by_rank(transcript.server, ["weight"]) == true_pairs(transcript.server, transcript.participants)


def test_no_pairs_are_found_where_ranks_tell_nothing():
    people, batch, right = 10, 12, 0
    updates = linear_updates(people, batch)
    for seed in range(5):
        chain, transcript = transmit_watched_round("ffl", updates, np.full(people, batch), LAYER, seed)
        observing = registry.get(Kind.OBSERVATION, "found-pair-sum").create()
        found = observe_round("found-pair-sum", chain, transcript, ["weight"])
        right += sum(observing.own_metrics(each, transcript)["pair_accuracy"] for each in found)
    # One in nine is chance.
    assert right <= 8


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_two_partners_are_told_apart_in_a_linear_layer(batch):
    people, rows, inputs = 6, 10, 40
    updates = linear_updates(people, batch, rows, inputs + 1)
    # The last column of each matrix is the bias, which stands behind the weights.
    whole = updates.reshape(people, rows, inputs + 1)
    updates = np.concatenate([whole[:, :, :-1].reshape(people, -1), whole[:, :, -1]], 1)
    columns = replace(
        Columns.of_length(updates.shape[1]),
        spans={"weight": slice(0, rows * inputs), "bias": slice(rows * inputs, updates.shape[1])},
        shapes={"weight": (rows, inputs), "bias": (rows,)},
    )
    chain, transcript = transmit_watched_round("ffl", updates, np.full(people, batch), columns, seed=3)
    unmixed = registry.get(Kind.OBSERVATION, "unmixed").create()
    for each in observe_round("unmixed", chain, transcript, ["weight"]):
        assert unmixed.own_metrics(each, transcript) == {"pair_accuracy": 1.0, "mask_accuracy": 1.0}
        true, found = updates[list(each.participants)], np.stack(each.updates)
        assert (found == true).all() or (found == true[::-1]).all()


def test_a_wrong_mask_scores_less_and_a_wrong_pair_has_none():
    updates = linear_updates(4, 1)
    chain, transcript = transmit_watched_round("ffl", updates, np.full(4, 1), LAYER, seed=3)
    unmixed = registry.get(Kind.OBSERVATION, "unmixed").create()
    found = observe_round("unmixed", chain, transcript, ["weight"])[0]
    owners = found.owners.copy()
    owners[:, ::4] ^= True
    assert unmixed.own_metrics(replace(found, owners=owners), transcript)["mask_accuracy"] == pytest.approx(0.75)
    assert unmixed.own_metrics(replace(found, owners=~found.owners), transcript)["mask_accuracy"] == 1
    one, other = found.participants
    stranger = next(who for who in range(4) if who not in found.participants)
    assert unmixed.own_metrics(replace(found, participants=(one, stranger)), transcript) == {"pair_accuracy": 0.0}
    assert unmixed.own_metrics(replace(found, participants=(other, one)), transcript)["mask_accuracy"] == 1


def test_masks_are_undone_on_real_gradients_and_images_come_back():
    (cell,) = plan_reconstruction_cells("unmixed", ["ffl"], people=10)
    found = run_cell(cell, "own").metrics
    assert found["pair_accuracy"] == 1
    assert found["mask_accuracy"] == 1
    assert found["psnr"] > 40


def test_labels_of_two_partners_are_told_from_their_mean_where_only_another_layer_was_separated():
    content = {"tasks": ["digits-mlp"], "attacks": ["analytic"], "attack": {}}
    (cell,) = plan_reconstruction_cells("unmixed", ["ffl"], extra=content, people=10)
    found = run_cell(cell, "own").metrics
    assert found["psnr"] > 100
    assert found["label_accuracy"] > 0.95


def test_where_ranks_tell_nothing_pairs_are_guessed_and_no_mask_is_told():
    (cell,) = plan_reconstruction_cells("unmixed", ["ffl"], people=20, groups=1, batch=8, steps=5)
    found = run_cell(cell, "own").metrics
    assert found["pair_accuracy"] < 0.5
    assert found["mask_accuracy"] is None


def test_where_nobody_pairs_there_is_nothing_to_attack():
    content = {"defense": {"ffl": {"acceptance": "literal"}}}
    (cell,) = plan_reconstruction_cells("submission", ["ffl"], extra=content)
    assert run_cell(cell, "own").error.startswith("no update reached the server")


def test_models_without_a_linear_layer_have_no_ranks():
    from torch import nn

    class Other(type(registry.get(Kind.TASK, "digits-cnn").create())):
        def model(self):
            return nn.Sequential(nn.Conv2d(1, 2, 8), nn.Flatten())

    finding = registry.get(Kind.MEASURE, "reconstruction").create(observation="unmixed")
    with pytest.raises(ParameterError, match="needs a model with a linear layer"):
        finding.check(Other(), defense("ffl"))

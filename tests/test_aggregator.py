"""Rules that keep their memory from call to call."""

import numpy as np
import pytest
import torch

from fflbench import Aggregator, aggregate
from fflbench.arrays.columns import Columns
from fflbench.errors import ParameterError
from fflbench.federation import Rule, chain
from fflbench.federation.transport import Setting
from fflbench.registration import rule

WITH_MEMORY = ("centered-clipping", "clipped-clustering", "three-sigma")


def rounds(n=6, d=5, count=4, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, d)).astype(np.float32) for _ in range(count)]


def test_foolsgold_keeps_its_history_from_call_to_call():
    foolsgold, seen = Aggregator("foolsgold"), rounds()
    aggregates = [foolsgold(updates) for updates in seen]
    np.testing.assert_allclose(foolsgold.memory["history"], sum(each.astype(np.float64) for each in seen), rtol=1e-6)
    np.testing.assert_array_equal(aggregates[0], aggregate("foolsgold", seen[0]))
    assert not np.array_equal(aggregates[-1], aggregate("foolsgold", seen[-1]))
    assert foolsgold.round == 4


@pytest.mark.parametrize("defense", ["foolsgold", "reputation", "multi-krum", "bucketing + median", *WITH_MEMORY])
def test_aggregates_are_those_of_a_federation_with_this_seed(defense):
    sizes, columns = np.arange(3, 15), Columns.of_length(5)
    of_federation, aggregator = chain.defense(defense), Aggregator(defense, participants=12, seed=7)
    of_federation.begin(Setting(participants=12, per_round=8, sizes=sizes, columns=columns), 7)
    for round, updates in enumerate(rounds(n=8)):
        senders = of_federation.select(round)
        transcript = of_federation.transmit(round, np.zeros(5, np.float32), senders, updates.copy())
        result = aggregator(updates, weights=sizes[senders], participants=senders)
        np.testing.assert_array_equal(result, of_federation.aggregate(transcript))
    for name, kept in aggregator.memory.items():
        np.testing.assert_array_equal(kept, of_federation.rule.memory[name])


def test_senders_are_known_by_their_numbers():
    updates, senders = rounds(n=3, count=2), ([4, 0, 2], [2, 1, 4])
    foolsgold = Aggregator("foolsgold", participants=5)
    for each, who in zip(updates, senders, strict=True):
        foolsgold(each, participants=who)
    history = np.zeros((5, 5))
    history[[4, 0, 2]] += updates[0]
    history[[2, 1, 4]] += updates[1]
    np.testing.assert_array_equal(foolsgold.memory["history"], history)
    assert foolsgold.memory["seen"].tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    "senders",
    [[0, 1], [0, 1, 1], [0, 1, 5], [-1, 0, 1], [0.0, 1.0, 2.0], "abc", [[0, 1, 2]], None, [True, False, True]],
)
def test_senders_that_cannot_be_are_refused(senders):
    foolsgold = Aggregator("foolsgold", participants=5)
    with pytest.raises(ParameterError, match=r"participants must be 3 different numbers from 0 to 4, one for each row"):
        foolsgold(rounds(n=3)[0], participants=senders)
    assert foolsgold.round == 0


def test_the_number_of_rows_may_differ_where_senders_do_not_matter():
    median = Aggregator("median")
    for n in (5, 8, 3):
        (updates,) = rounds(n=n, count=1)
        np.testing.assert_array_equal(median(updates), np.median(updates, axis=0).astype(np.float32))
    with pytest.raises(
        ParameterError, match=r"8 updates are more than the 5 participants: set participants = 8 or more"
    ):
        Aggregator("median", participants=5)(rounds(n=8)[0])
    foolsgold = Aggregator("foolsgold")
    foolsgold(rounds(n=5)[0])
    with pytest.raises(
        ParameterError, match=r"8 updates are more than the 5 participants: set participants = 8 or more"
    ):
        foolsgold(rounds(n=8)[0])
    with pytest.raises(
        ParameterError, match=r'^defense "foolsgold" must know who sent each row: participants must be 3'
    ):
        foolsgold(rounds(n=3)[0])


def test_an_error_leaves_the_memory_as_it_was():
    foolsgold = Aggregator("foolsgold")
    seen = rounds()
    foolsgold(seen[0])
    before = foolsgold.memory
    with pytest.raises(ParameterError, match=r"^updates must have 5 columns, as those of earlier rounds, not 4$"):
        foolsgold(seen[1][:, :4])
    with pytest.raises(ParameterError, match="not finite"):
        foolsgold(np.full((6, 5), np.nan))
    with pytest.raises(ParameterError, match=r'^defense "foolsgold" has no answer: every participant has weight zero$'):
        foolsgold(np.full((6, 5), 1e9, np.float32))
    assert foolsgold.round == 1
    for name, kept in foolsgold.memory.items():
        np.testing.assert_array_equal(kept, before[name])
    again = Aggregator("foolsgold")
    again(seen[0])
    np.testing.assert_array_equal(foolsgold(seen[1]), again(seen[1]))


def test_an_error_of_the_first_call_leaves_a_new_aggregator():
    foolsgold = Aggregator("foolsgold")
    with pytest.raises(ParameterError, match="has no answer"):
        foolsgold(np.ones((4, 2)))
    (updates,) = rounds(n=6, d=5, count=1)
    np.testing.assert_array_equal(foolsgold(updates), aggregate("foolsgold", updates))


def test_memory_is_read_as_copies():
    foolsgold = Aggregator("foolsgold")
    assert foolsgold.memory == {}
    seen = rounds()
    foolsgold(seen[0])
    foolsgold.memory["history"][:] = 1e9
    assert np.abs(foolsgold.memory["history"]).max() < 10


def test_a_result_is_the_callers_own(own_registry):
    @rule("last-row", title="Last row")
    class LastRow(Rule):
        """Returns an array of its memory."""

        def aggregate(self, view, rng):
            self.memory["kept"] = view.rows[-1]
            return self.memory["kept"]

    aggregator, (updates, *_) = Aggregator("last-row"), rounds()
    before = updates.copy()
    aggregator(updates)[:] = 5
    aggregator(torch.from_numpy(updates))[:] = 5
    np.testing.assert_array_equal(updates, before)
    np.testing.assert_array_equal(aggregator.memory["kept"], before[-1])


def test_feedback_of_the_last_round_can_be_read():
    reputation = Aggregator("reputation")
    assert reputation.feedback == {}
    updates = rounds()[0]
    reputation(updates)
    np.testing.assert_allclose(list(reputation.feedback.values()), reputation.memory["global"])
    assert list(reputation.feedback) == list(range(6))


def test_feedback_that_is_none_is_refused(own_registry):
    @rule("chatty", title="Chatty")
    class Chatty(Rule):
        """Sends feedback to nobody."""

        def aggregate(self, view, rng):
            return view.rows.mean(0), {99: 1.0}

    with pytest.raises(ParameterError, match="feedback must be numbers by participants"):
        Aggregator("chatty")(rounds()[0])


def test_the_seed_decides_random_choices():
    updates = rounds(n=10)[0]
    one, same, other = (Aggregator("bucketing + median", seed=seed) for seed in (1, 1, 2))
    first = [one(updates) for _ in range(3)]
    np.testing.assert_array_equal(first, [same(updates) for _ in range(3)])
    assert not np.array_equal(first, [other(updates) for _ in range(3)])
    assert not np.array_equal(first[0], first[1])


def test_torch_in_torch_out_and_a_matrix_that_stays():
    aggregator = Aggregator("clipping + foolsgold", bound=0.5)
    updates = rounds()[0]
    before = torch.from_numpy(updates).double()
    result = aggregator(before)
    assert (result.dtype, type(result)) == (torch.float64, torch.Tensor)
    np.testing.assert_array_equal(before.numpy(), updates.astype(np.float64))


def test_a_simulation_leaves_the_memory_as_it_was():
    foolsgold, seen = Aggregator("foolsgold"), rounds()
    np.testing.assert_array_equal(foolsgold.simulate(seen[0]), aggregate("foolsgold", seen[0]))
    foolsgold(seen[0])
    expected = foolsgold.simulate(seen[1])
    np.testing.assert_array_equal(expected, foolsgold.simulate(seen[1]))
    assert foolsgold.round == 1
    np.testing.assert_array_equal(expected, foolsgold(seen[1]))
    assert foolsgold.simulate(np.full((6, 5), 1e9, np.float32)) is None
    with_nan = np.vstack([seen[2][:5], np.full((1, 5), np.nan, np.float32)])
    assert np.isfinite(Aggregator("median").simulate(with_nan)).all()
    assert np.isnan(with_nan[5]).all()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"participants": 0}, "participants = 0 must be a whole number from 1 to 1000000"),
        ({"participants": True}, "participants = true must be a whole number"),
        ({"participants": "10"}, 'participants = "10" must be a whole number'),
        ({"seed": -1}, "seed = -1 must be a whole number from 0"),
        ({"seed": 0.5}, "seed = 0.5 must be a whole number from 0"),
        ({"kapa": 1.0}, 'has no parameter "kapa"; did you mean "kappa"'),
    ],
)
def test_a_wrong_argument_is_refused_at_once(given, told):
    with pytest.raises(ParameterError, match=told):
        Aggregator("foolsgold", **given)


def test_its_text_is_the_call_that_makes_it():
    assert repr(Aggregator("foolsgold", kappa=2.0)) == "Aggregator('foolsgold', kappa=2.0)"

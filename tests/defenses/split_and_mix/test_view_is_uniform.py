"""The server's and a participant's view: nothing beyond the sum, in distribution and in bits."""

import numpy as np
import pytest
from fflbench.defenses.transports.split_and_mix import parties
from scipy.stats import chi2_contingency, chisquare

from fflbench.crypto.entropy import Entropy
from tests.defenses.split_and_mix.conftest import SMALL
from tests.defenses.split_and_mix.rounds import begin, normal, round_of, sums_of_shares, transmit

COLUMNS, PEOPLE = 8000, 4
BITS = 3
"""Leading bits of a sum that are counted."""


def cells(one, other):
    """Counts of the leading bits of two sums together."""
    places = (one >> np.uint32(32 - BITS)) << np.uint32(BITS) | other >> np.uint32(32 - BITS)
    return np.bincount(places, minlength=4**BITS)


def pairs(sums):
    return [(sums[i], sums[j]) for i in range(len(sums)) for j in range(i)]


def simulated(total, people, seed):
    """A view made from the sum alone: random sums, of which the last completes the total."""
    view = np.random.default_rng(seed).integers(2**32, size=(people, len(total)), dtype=np.uint32)
    view[-1] = total - view[:-1].sum(0, dtype=np.uint32)
    return view


@pytest.fixture(scope="module")
def updates():
    """Updates far from random: everybody's coordinates are all alike."""
    return np.repeat(np.array([[0.5], [-1.5], [2.0], [0.0]], np.float32), COLUMNS, 1)


@pytest.mark.parametrize("shares", [2, 3, 4])
def test_the_sums_that_the_server_sees_are_uniform_and_any_two_independent(updates, shares):
    sums = sums_of_shares(round_of(updates, mode="full", shares=shares)[1])
    assert min(chisquare(cells(*pair)).pvalue for pair in pairs(sums)) > 1e-4


def test_the_view_cannot_be_told_from_one_that_is_made_from_the_sum_alone(updates):
    sums = sums_of_shares(round_of(updates, mode="full")[1])
    total = sums.sum(0, dtype=np.uint32)
    made = simulated(total, PEOPLE, seed=1)
    for real, own in zip(pairs(sums), pairs(made), strict=True):
        assert chi2_contingency(np.stack([cells(*real), cells(*own)])).pvalue > 1e-4
    # The sum of all, and so of three, is the same for every coordinate, and that of any two is not.
    assert len(set(total.tolist())) == 1
    assert all(len(set((one + other).tolist())) > COLUMNS // 2 for one, other in pairs(sums))


def test_the_same_tests_find_updates_where_shares_are_not_random(updates, monkeypatch):
    monkeypatch.setattr(parties.keystream, "xor_keystream", lambda data, key, out: out.__setitem__(slice(None), data))
    sums = sums_of_shares(round_of(updates, mode="full")[1])
    assert max(chisquare(cells(*pair)).pvalue for pair in pairs(sums)) < 1e-10


def test_with_a_single_share_the_server_would_see_the_updates(updates, monkeypatch):
    from fflbench.defenses.transports.split_and_mix.transport import SplitAndMix

    monkeypatch.setattr(SplitAndMix, "share_count", lambda self, n: 1)
    it, transcript = round_of(updates, mode="full")
    seen = it.transport.encoding(PEOPLE).decode(sums_of_shares(transcript))
    np.testing.assert_allclose(seen, updates, atol=1e-6)


def test_shares_that_leave_a_participant_do_not_depend_on_its_update():
    """With the same secrets, another update changes what is kept, and no bit of what anybody receives."""
    one, other = normal(PEOPLE, 300), normal(PEOPLE, 300)
    other[0] = 1
    received, sums = [], []
    for updates in (one, other):
        transcript = round_of(updates, mode="full", shares=3)[1]
        views = transcript.participants
        received.append([bytes(each.encrypted_share) for who in range(PEOPLE) for each in views[who].received])
        sums.append(sums_of_shares(transcript))
    assert received[0] == received[1]
    assert len(received[0]) == 2 * PEOPLE
    assert (sums[0] != sums[1]).any(1).tolist() == [True, False, False, False]


def test_no_two_shares_are_alike_nor_repeat_in_another_round():
    it, updates = begin(PEOPLE, 300, mode="full", shares=3), normal(PEOPLE, 300)
    seen = []
    for round in range(2):
        views = transmit(it, updates, round, watch=range(PEOPLE)).participants
        seen += [bytes(each.encrypted_share) for view in views.values() for each in view.received]
    assert len(set(seen)) == len(seen) == 4 * PEOPLE


def test_shares_of_one_participant_are_independent_and_add_up_to_its_update():
    rng = np.random.default_rng(0)
    update = rng.integers(2**32, size=COLUMNS, dtype=np.uint32)
    sender = parties.ShareHolder(update.copy(), 0, [1, 2, 3], [], round=0, entropy=Entropy(0), group=SMALL)
    others = [parties.ShareHolder(update.copy(), who, [], [0], 0, Entropy(who), SMALL) for who in (1, 2, 3)]
    sender.accept_keys(parties.list_keys(0, 0, [1, 2, 3], {each.name: each.announce_key().key for each in others}))
    shares = []
    for each in others:
        each.accept_keys(parties.list_keys(0, each.name, [0], {0: sender.announce_key().key}))
        each.accept_share(sender.make_share(each.name))
        shares.append(each.words - update)
    shares.append(sender.words)
    np.testing.assert_array_equal(np.sum(shares, axis=0, dtype=np.uint32), update)
    assert min(chisquare(cells(*pair)).pvalue for pair in pairs([*shares, update])) > 1e-4

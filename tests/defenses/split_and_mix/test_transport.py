"""Split and mix: the aggregate, the range of its encoding, lost shares, bytes, and the rules that remain."""

import dataclasses

import numpy as np
import pytest
from fflbench.defenses.transports.split_and_mix.fixed_point import FixedPoint
from fflbench.defenses.transports.split_and_mix.messages import ShareMessage
from fflbench.defenses.transports.split_and_mix.transport import DropOuts, SplitAndMix
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fflbench import registry
from fflbench.errors import ParameterError
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.measures import Context
from fflbench.registry import Kind
from tests.defenses.split_and_mix.rounds import begin, normal, round_of, transmit
from tests.played import finished
from tests.privacy.observed_rounds import observe_round

VALUES = st.floats(-8, 8, width=32)


@st.composite
def weighted_updates(draw):
    n, d = draw(st.integers(1, 7)), draw(st.integers(0, 9))
    updates = draw(arrays(np.float32, (n, d), elements=VALUES))
    updates[draw(st.lists(st.integers(0, n - 1), max_size=n))] = 0
    return updates, draw(st.lists(st.integers(1, 2000), min_size=n, max_size=n))


@given(weighted_updates(), st.sampled_from([32, 64]))
def test_the_aggregate_is_the_mean_by_examples_within_half_a_step_for_each_participant(given_updates, bits):
    updates, sizes = given_updates
    it = begin(*updates.shape, sizes, bits=bits)
    found = it.aggregate(transmit(it, updates))
    wanted = np.average(updates.astype(np.float64), axis=0, weights=sizes)
    weights = np.array(sizes) / max(sizes)
    rounding = len(updates) * FixedPoint(bits, 8.0, len(updates)).step / 2 / weights.sum()
    np.testing.assert_array_less(np.abs(found - wanted), rounding + 2e-7 * np.abs(wanted) + 1e-12)


@pytest.mark.parametrize(
    ("people", "parameters"),
    [(1, {}), (2, {}), (3, {"shares": 2}), (4, {"shares": 4}), (7, {}), (5, {"bits": 64})],
)
def test_both_modes_give_the_server_the_same_bits(people, parameters):
    updates, sizes = normal(people, 50), np.arange(1, people + 1)
    views = [round_of(updates, sizes, mode=mode, **parameters)[1].server for mode in ("fast", "full")]
    for name in ("rows", "weights", "sizes", "dropped", "participants", "scale", "selected"):
        np.testing.assert_array_equal(*(getattr(view, name) for view in views))
    assert len(views[0].rows) == 1
    assert views[0].participants is None


@pytest.mark.parametrize("group", ["ffdhe2048", "rfc5114"])
def test_shares_arrive_with_keys_of_the_shipped_groups(real_groups, group):
    updates = normal(3, 50)
    it, transcript = round_of(updates, mode="full", shares=2, group=group)
    np.testing.assert_allclose(it.aggregate(transcript), updates.mean(0), atol=1e-6)


@given(
    st.integers(1, 10**6),
    st.floats(1e-6, 1e12),
    st.sampled_from([32, 64]),
    st.lists(st.floats(-1, 1), min_size=1, max_size=5),
)
def test_sums_of_encoded_values_never_leave_the_positive_half_of_the_ring(n, bound, bits, signs):
    try:
        encoding = FixedPoint(bits, bound, n)
    except ParameterError:
        assert n * 128 > 2 ** (bits - 2)
        return
    largest = int(np.rint(bound * 2.0**encoding.fraction))
    assert n * largest < 2 ** (bits - 1)
    # With one binary digit more, the sum of n could wrap.
    assert n * (2 * bound * 2.0**encoding.fraction + 0.5) * (1 + 1e-9) > 2 ** (bits - 1) - 1
    values = (np.array(signs) * bound).astype(np.float32)
    values = values[np.abs(values) <= bound]
    decoded = encoding.decode(encoding.encode(values, 1.0))
    np.testing.assert_allclose(decoded, values, rtol=1e-15, atol=encoding.step / 2)


@pytest.mark.parametrize("mode", ["fast", "full"])
@pytest.mark.parametrize("value", [8.001, -1e30, np.nan, np.inf])
def test_whoever_cannot_be_encoded_abstains_and_the_mean_is_that_of_the_others(mode, value):
    updates = normal(4, 30)
    updates[2, 5] = value
    it, transcript = round_of(updates, [1, 2, 3, 4], mode=mode)
    np.testing.assert_array_equal(transcript.server.dropped, [2])
    assert transcript.facts["abstained"] == [2]
    wanted = np.average(updates[[0, 1, 3]], axis=0, weights=[1, 2, 4])
    np.testing.assert_allclose(it.aggregate(transcript), wanted, atol=1e-6)


def test_values_at_the_bound_of_everybody_are_added_up_without_wrapping():
    updates = np.full((6, 3), 8, np.float32) * np.array([1, -1, 1], np.float32)
    it, transcript = round_of(updates, bound=8.0, mode="full")
    np.testing.assert_allclose(it.aggregate(transcript), [8, -8, 8], atol=1e-6)


def test_an_attackers_huge_update_is_cut_off_at_the_bound_and_counts():
    updates = normal(4, 30)
    updates[1] = -1e30
    it = begin(4, 30)
    found = it.aggregate(transmit(it, updates, attackers=np.array([1])))
    np.testing.assert_allclose(found, (updates[[0, 2, 3]].sum(0) - 8) / 4, atol=1e-6)


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_a_lost_sum_makes_the_round_void_and_the_record_says_so(mode):
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=1, participants=4, per_round=4)
    defense = chain.defense("split-and-mix", mode=mode)
    it = Federation(task, Attack(share=0.0), defense, 0, deviation=DropOuts(share=0.25))
    before = it.weights.copy()
    outcome = finished(it)
    (told,) = outcome.history
    (lost,) = told["dropped_out"]
    assert told["void_because"] == f"no sum of shares from participant {lost}"
    assert told["kept_because"] == "no update was left"
    assert outcome.facts["void_rounds"] == 1
    np.testing.assert_array_equal(it.weights, before)


def altered(message, field):
    content = bytearray(getattr(message, field))
    content[len(content) // 2] ^= 1
    return dataclasses.replace(message, **{field: bytes(content)})


@pytest.mark.parametrize("field", ["encrypted_share", "mac"])
def test_an_altered_share_is_noticed_and_makes_the_round_void(monkeypatch, field):
    original, number = SplitAndMix._send, []

    def send(self, transcript, message):
        original(self, transcript, message)
        number.append(message)
        shares = [each for each in number if isinstance(each, ShareMessage)]
        return altered(message, field) if message is number[-1] and len(shares) == 2 else message

    monkeypatch.setattr(SplitAndMix, "_send", send)
    _, transcript = round_of(normal(4, 30), mode="full")
    assert transcript.facts["void_because"] == "a share whose MAC does not hold"
    assert len(transcript.server.rows) == 0


def test_a_share_that_does_not_arrive_is_noticed(monkeypatch):
    from fflbench.defenses.transports.split_and_mix.parties import ShareHolder

    original = ShareHolder.accept_share
    monkeypatch.setattr(
        ShareHolder, "accept_share", lambda self, message: message.sender == 1 or original(self, message)
    )
    _, transcript = round_of(normal(4, 30), mode="full")
    assert transcript.facts["void_because"] == "a share that did not arrive"


def test_every_message_is_counted_by_kind():
    people, columns, shares = 5, 1000, 3
    ledger = round_of(normal(people, columns), shares=shares, mode="full")[1].ledger
    vector, given_away = 4 * columns, shares - 1
    assert ledger.bytes["between"]["share"] == people * given_away * vector
    assert ledger.bytes["between"]["mac"] == people * given_away * 32
    assert ledger.bytes["up"]["sum of shares"] == people * vector
    assert ledger.bytes["up"]["public key"] == people * 256
    assert ledger.bytes["down"]["public key"] == people * 2 * given_away * 256
    assert ledger.messages["between"] == people * given_away


@pytest.mark.parametrize("name", ["communication", "runtime"])
def test_its_cost_is_measured_with_real_messages(name):
    measure = registry.get(Kind.MEASURE, name).create(updates=4, **({"repeats": 2} if name == "runtime" else {}))
    task = registry.get(Kind.TASK, "digits-mlp").create()
    with pytest.raises(ParameterError, match='set mode = "full"'):
        measure.check(task, chain.defense("split-and-mix"))
    defense = chain.defense("split-and-mix", mode="full", shares=3)
    measure.check(task, defense)
    metrics = measure.run(Context(task, defense, seed=0)).metrics
    if name == "communication":
        # The model down, two shares each way, and a sum up: six vectors.
        assert metrics["bytes"] == pytest.approx(6 * 4 * task.columns().count, rel=0.1)
    else:
        assert metrics["participant_seconds"] > 0
        assert metrics["decryption_seconds"] > 0


@pytest.mark.parametrize("rule", ["reputation", "multi-krum", "median", "foolsgold", "clipping + median"])
def test_no_rule_that_judges_updates_is_left(rule):
    with pytest.raises(ParameterError, match="split-and-mix shows the server only their sum"):
        chain.parse(f"split-and-mix + {rule}")
    assert chain.parse("split-and-mix").rule.name == "fedavg"


def test_no_reputation_could_survive_since_the_view_is_the_same_whoever_sent_the_poison():
    """Reputations, Krum and the median tell these two rounds apart, and nothing that sees only the sum can."""
    honest = np.full((6, 20), 0.1, np.float32)
    views, plain = [], []
    for attacker in (1, 4):
        updates = honest.copy()
        updates[attacker] = 4
        views.append(round_of(updates)[1].server)
        it = chain.defense("reputation")
        it.begin(begin(6, 20).setting, 0)
        it.aggregate(transmit(it, updates))
        plain.append(it.rule.memory["global"])
    for name in ("rows", "weights", "sizes", "participants", "dropped"):
        np.testing.assert_array_equal(*(getattr(view, name) for view in views))
    assert views[0].extra == views[1].extra == {}
    assert [int(reputation.argmin()) for reputation in plain] == [1, 4]


def test_a_colluding_participant_contributes_only_its_own_update():
    updates = normal(4, 30)
    it, transcript = round_of(updates, [1, 2, 3, 4], mode="full")
    (found,) = observe_round("colluding-participant", it, transcript)
    assert found.participants == (1, 2, 3)
    np.testing.assert_allclose(found.updates[0], np.average(updates[1:], axis=0, weights=[2, 3, 4]), atol=1e-6)


def test_bad_parameters_are_refused_in_one_sentence():
    with pytest.raises(ParameterError, match="shares = 5 go to as many participants: per_round = 4 is less"):
        begin(4, 3, shares=5)
    with pytest.raises(ParameterError, match="bits = 32 are too few for sums of 16777216 updates: set bits = 64"):
        chain.defense("split-and-mix").validate(2**24)
    with pytest.raises(ParameterError):
        chain.defense("split-and-mix", shares=1)
    with pytest.raises(ParameterError):
        chain.defense("split-and-mix", bits=16)


def test_coarse_steps_and_too_few_shares_are_flagged():
    assert len(begin(20, 3).transport.flags()) == 1
    assert "multiples of 0.125" in begin(20, 3, bound=1e7).transport.flags()[1]
    assert "with 2 shares" in begin(20, 3, shares=2).transport.flags()[1]


def test_each_gives_shares_to_those_behind_it_in_an_order_that_is_drawn_anew():
    it, updates, orders = begin(8, 3, mode="full", shares=3), normal(8, 3), set()
    for round in range(4):
        views = transmit(it, updates, round, watch=range(8)).participants
        senders = {who: frozenset(each.sender for each in view.received) for who, view in views.items()}
        assert all(len(others) == 2 and who not in others for who, others in senders.items())
        assert sorted(other for others in senders.values() for other in others) == sorted([*range(8)] * 2)
        orders.add(frozenset(senders.items()))
    assert len(orders) == 4

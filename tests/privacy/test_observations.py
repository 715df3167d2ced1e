"""Updates that the core's observations extract, and the views that they get."""

from dataclasses import replace

import numpy as np
import pytest

from fflbench import registry
from fflbench.errors import NotRegisteredError
from fflbench.federation import Columns
from fflbench.federation.chain import defense
from fflbench.privacy.observation import Observation, observe, participants_to_watch
from fflbench.registry import Kind
from tests.privacy.observed_rounds import COLUMNS, PEOPLE, UPDATES, observe_round, transmit_watched_round


def test_without_a_defense_a_submission_is_its_senders_update():
    found = observe_round("submission", *transmit_watched_round("fedavg"))
    assert [each.participants for each in found] == [(who,) for who in range(PEOPLE)]
    np.testing.assert_array_equal([each.updates[0] for each in found], UPDATES)


@pytest.mark.parametrize("name", ["fedavg", "ideal-secagg", "ffl"])
def test_the_sum_is_the_mean_of_all(name):
    (found,) = observe_round("sum", *transmit_watched_round(name))
    assert sorted(found.participants) == list(range(PEOPLE))
    np.testing.assert_allclose(found.updates[0], UPDATES.mean(0), rtol=1e-5, atol=1e-6)


def test_ideal_secure_aggregation_shows_one_row_and_learns_as_fedavg_does():
    chain, transcript = transmit_watched_round("ideal-secagg")
    assert transcript.server.rows.shape == (1, COLUMNS)
    np.testing.assert_allclose(chain.aggregate(transcript), UPDATES.mean(0), rtol=1e-5, atol=1e-6)


def test_a_colluding_participant_takes_only_itself_out_of_a_secure_sum():
    sizes = np.array([3, 5, 2, 7])
    (found,) = observe_round("colluding-participant", *transmit_watched_round("ideal-secagg", sizes=sizes))
    assert found.participants == (1, 2, 3)
    wanted = np.average(UPDATES[1:], axis=0, weights=sizes[1:])
    np.testing.assert_allclose(found.updates[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entry", registry.entries(Kind.OBSERVATION), ids=lambda entry: entry.name)
def test_attacks_may_write_on_what_is_observed(entry):
    columns = replace(
        Columns.of_length(COLUMNS), spans={"weight": slice(0, COLUMNS)}, shapes={"weight": (10, COLUMNS // 10)}
    )
    chain, transcript = transmit_watched_round("ffl", columns=columns)
    before = transcript.server.rows.copy()
    for each in observe_round(entry.name, chain, transcript, ["weight"]):
        for update in each.updates:
            update[:] = 0
    np.testing.assert_array_equal(transcript.server.rows, before)


@pytest.mark.parametrize(
    ("name", "text", "applies"),
    [
        ("submission", "median", True),
        ("submission", "ideal-secagg", False),
        ("sum", "ideal-secagg", True),
        ("colluding-participant", "fedavg", False),
        ("colluding-participant", "ideal-secagg", True),
        ("pair-sum", "fedavg", False),
        ("pair-sum", "fragment-exchange + median", True),
    ],
)
def test_an_observation_goes_with_the_rows_that_a_transport_shows(name, text, applies):
    assert registry.get(Kind.OBSERVATION, name).create().applies_to(defense(text).transport) == applies


def test_where_no_row_is_left_nothing_is_observed():
    chain, transcript = transmit_watched_round("fedavg", np.full_like(UPDATES, np.nan))
    assert observe_round("submission", chain, transcript) == []


@pytest.mark.parametrize("entry", registry.entries(Kind.OBSERVATION), ids=lambda entry: entry.name)
def test_an_observation_is_handed_what_it_declares_and_nothing_more(entry, monkeypatch):
    seen = []
    monkeypatch.setattr(entry.target, "observe", lambda self, coalition: seen.append(coalition) or [])
    observing, (chain, transcript) = entry.create(), transmit_watched_round("ffl")
    observe(observing, chain.transport, transcript, range(PEOPLE), [])
    (coalition,) = seen
    assert coalition.server is transcript.server
    assert coalition.transport is type(chain.transport)
    others = {"a participant's view", "who exchanged with whom"} & set(observing.knows)
    assert set(coalition.participants) == (set(range(PEOPLE)) if others else set())


def test_participants_are_watched_where_an_observation_or_its_score_needs_their_views():
    class Scored(Observation):
        def own_metrics(self, found, transcript):
            return {}

    names = {"submission": 0, "sum": 0, "colluding-participant": 2, "found-pair-sum": 2}
    for name, count in names.items():
        assert len(participants_to_watch(registry.get(Kind.OBSERVATION, name).create(), [0, 1])) == count
    assert len(participants_to_watch(Scored(), [0, 1])) == 2


@pytest.mark.parametrize("measure", ["reconstruction", "membership", "property"])
def test_an_observation_that_is_not_registered_is_refused_with_the_nearest(measure):
    with pytest.raises(NotRegisteredError, match='"submision" is not registered; did you mean "submission"'):
        registry.get(Kind.MEASURE, measure).create(observation="submision")


@pytest.mark.parametrize("name", ["fedavg", "ideal-secagg", "ffl"])
def test_a_sum_counts_participants_by_their_examples_once(name):
    sizes = np.array([3, 5, 2, 7])
    (found,) = observe_round("sum", *transmit_watched_round(name, sizes=sizes))
    np.testing.assert_allclose(found.updates[0], np.average(UPDATES, axis=0, weights=sizes), rtol=1e-5, atol=1e-6)

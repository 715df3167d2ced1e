"""A defense is a chain of a transport, pre-aggregations and a rule."""

import itertools
import multiprocessing
import pickle
import pickletools
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from fflbench import registration, registry
from fflbench.errors import NotRegisteredError, ParameterError
from fflbench.federation import Transport
from fflbench.federation.chain import defense, parse
from fflbench.federation.rule import FILL, NoAnswerError
from fflbench.federation.transport import Setting
from fflbench.registration import preaggregation, rule
from fflbench.registry import Kind
from tests.federation.chains import COLUMNS, MODEL, PARTICIPANTS, SEED, begun, packed, result, served, transmitted


def names(kind):
    return [entry.name for entry in registry.entries(kind)]


EVERY = [
    " + ".join(filter(None, parts))
    for parts in itertools.product(names(Kind.TRANSPORT), ["", *names(Kind.PREAGGREGATION)], names(Kind.RULE))
]


def works(text):
    try:
        parse(text)
    except ParameterError:
        return False
    return True


WORKING = [text for text in EVERY if works(text)]


def configured(text):
    """Return a chain with defaults, but an f for which Bulyan is defined on buckets."""
    return parse(text).check({"f": 0} if text.endswith("bucketing + bulyan") else {})


@pytest.mark.parametrize("text", EVERY)
def test_every_chain_aggregates_a_round_or_is_refused_in_one_sentence(text):
    try:
        configuration = configured(text)
    except ParameterError as refused:
        (line,) = str(refused).splitlines()
        assert line.startswith(f'"{text}" cannot work: ')
        reason = line.removeprefix(f'"{text}" cannot work: ')
        assert sum(part in reason for part in text.split(" + ")) == 2
        return
    chain = begun(configuration)
    change = chain.aggregate(transmitted(chain, 0))
    assert change.shape == (COLUMNS.count,)
    assert np.isfinite(change).all()
    assert change.any()


def test_every_transport_and_every_rule_works_with_something():
    used = {entry.name for text in WORKING for entry in parse(text).entries}
    assert used == {name for kind in (Kind.TRANSPORT, Kind.PREAGGREGATION, Kind.RULE) for name in names(kind)}


WITH_MEMORY = ("centered-clipping", "clipped-clustering", "foolsgold", "reputation", "three-sigma")


@pytest.fixture(scope="module")
def elsewhere():
    """One other process, which inherits nothing."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda content: pool.submit(served, content).result(timeout=60)


@pytest.mark.parametrize("text", WORKING)
def test_the_servers_half_gives_the_same_bits_in_another_process(text, elsewhere, monkeypatch):
    configuration = configured(text)
    chain = begun(configuration)
    for round in range(2):
        chain.aggregate(transmitted(chain, round))
    remembered = any(array.any() for array in chain.rule.memory.values())
    assert remembered == (text.rpartition(" ")[2] in WITH_MEMORY)
    transcript = transmitted(chain, 2)
    there = elsewhere(packed(chain, configuration, transcript.server))
    sent = []
    monkeypatch.setattr(chain.transport, "deliver", lambda transcript, feedback: sent.append(feedback))
    change = chain.aggregate(transcript)
    assert there == result(change, sent[0], chain.rule.memory)


VIEW = {"View", "Columns", "slice", "_reconstruct", "_frombuffer", "ndarray", "dtype", "scalar"}
"""Types that a pickled view may hold: arrays, and what the columns are."""


@pytest.mark.parametrize(
    ("transport", "parameters"),
    [*((name, {}) for name in names(Kind.TRANSPORT)), ("fragment-exchange", {"mode": "full"})],
)
def test_no_server_sees_a_seed_a_key_or_anything_but_arrays(transport, parameters):
    configuration = parse(transport).check(parameters)
    chain = begun(configuration)
    view = transmitted(chain, 0, watch=range(PARTICIPANTS)).server
    assert view.extra == {}
    assert globals_in(pickle.dumps(view)) <= VIEW
    everything = packed(chain, configuration, view)
    assert number(SEED) in pickle.dumps(chain.transport.entropy)
    assert number(SEED) not in everything
    assert not {"Entropy", "ServerPrivateKey", "RsaKey"} & globals_in(everything)


def test_nothing_of_those_who_abstain_can_be_reached_from_the_servers_view():
    """Their rows stand in the matrix that the view is a window on."""
    chain = begun(parse("fragment-exchange + median").check({}))
    everybody = np.arange(PARTICIPANTS - 1)
    abstained = set()
    for round in range(20):
        rows = np.repeat(np.float32(1 + everybody)[:, None], COLUMNS.count, axis=1)
        sent = rows[:, 0] * np.float32(chain.transport.participant_weights(everybody) / chain.transport.reference)
        transcript = chain.transmit(round, MODEL, everybody, rows)
        (alone,) = transcript.facts["abstained"]
        abstained.add(alone)
        assert transcript.server.rows.base is rows
        assert not np.isin(rows, sent[alone]).any()
    assert {0, PARTICIPANTS - 2} <= abstained


def number(value):
    """Return a number as a pickle holds it."""
    return value.to_bytes(6, "little")


def globals_in(content):
    """Return the names of types and functions that a pickle refers to."""
    texts, found = [], set()
    for operation, argument, _ in pickletools.genops(content):
        if isinstance(argument, str):
            texts.append(argument)
        if operation.name == "STACK_GLOBAL":
            found.add(texts[-1])
    return found


# Reading chains


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("median", "plain | median"),
        ("plain + median", "plain | median"),
        (" nnm+trimmed-mean ", "plain | nnm | trimmed-mean"),
        ("fragment-exchange + clipping + nnm + median", "fragment-exchange | clipping | nnm | median"),
        ("ffl", "fragment-exchange | reputation"),
        ("ideal-secagg", "ideal-secagg | fedavg"),
        ("ldp", "ldp | fedavg"),
        ("ldp + clipping + fedavg", "ldp | clipping | fedavg"),
    ],
)
def test_a_chain_is_read_part_by_part(text, read):
    assert " | ".join(entry.name for entry in parse(text).entries) == read


@pytest.mark.parametrize("text", [*WORKING, "plain", "ffl", "clipping + nnm + krum", "ldp + clipping + fedavg"])
def test_a_chain_as_text_reads_as_the_same_chain(text):
    assert parse(str(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nnm", '"nnm" must end with a rule, and preaggregation "nnm" is none (fflbench list rules)'),
        ("ldp + nnm", '"ldp + nnm" must end with a rule, and preaggregation "nnm" is none (fflbench list rules)'),
        ("nnm + ldp + median", '"nnm + ldp + median": transport "ldp" must stand first'),
        ("median + nnm + krum", '"median + nnm + krum": rule "median" must stand last'),
        ("median + krum", '"median + krum": rule "median" must stand last'),
        ("nnm + clipping + nnm + median", '"nnm + clipping + nnm + median" names nnm twice'),
        ("ffl + median", '"ffl + median": rule "reputation" must stand last'),
        (
            "ideal-secagg + median",
            '"ideal-secagg + median" cannot work: median needs rows, and ideal-secagg shows the server only their sum',
        ),
        (
            "ideal-secagg + clipping + fedavg",
            '"ideal-secagg + clipping + fedavg" cannot work: '
            "clipping needs rows, and ideal-secagg shows the server only their sum",
        ),
        (
            "bucketing + foolsgold",
            '"bucketing + foolsgold" cannot work: '
            "foolsgold must know who sent each row, and behind bucketing rows have no sender",
        ),
    ],
)
def test_a_chain_that_cannot_be_is_refused(text, sentence):
    with pytest.raises(ParameterError) as refused:
        parse(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nmn + median", ['defense "nmn" of "nmn + median" is not registered', 'did you mean "nnm"?']),
        ("nnm + medain", ['did you mean "median"?']),
        (
            "medain",
            ['defense "medain" is not registered; did you mean "median"?', "list defenses", "--plugin"],
        ),
        ("nnm + ", ["not registered"]),
        ("", ["not registered"]),
    ],
)
def test_a_part_that_nobody_registered_is_named_with_the_nearest(text, words):
    with pytest.raises(NotRegisteredError) as refused:
        parse(text)
    (line,) = str(refused.value).splitlines()
    assert all(word in line for word in words)


def test_a_chain_gets_a_name_of_its_own_in_one_line(own_registry):
    registration.chain("careful", "clipping + median", title="Careful")
    registration.chain("secret", "fragment-exchange + careful", title="Both")
    assert str(parse("careful")) == "clipping + median"
    assert str(parse("secret")) == "fragment-exchange + clipping + median"
    assert str(parse("nnm + careful")) == "nnm + clipping + median"


# Parameters of parts


def test_a_chain_that_is_a_part_of_itself_is_refused(own_registry):
    registration.chain("endless", "circle + median", title="Endless")
    registration.chain("circle", "clipping + endless", title="Circle")
    with pytest.raises(ParameterError, match=r'defense "endless" is a part of itself: endless \+ circle'):
        parse("endless")


def test_a_parameter_goes_to_every_part_that_declares_it():
    checked = parse("ldp + nnm + clipping + multi-krum").check({"f": 2, "bound": 1.5, "clip": 3.0, "m": 4})
    assert checked["transport"] == {"name": "ldp", "parameters": {"clip": 3.0, "noise": 1.0, "delta": 1e-5}}
    assert checked["preaggregations"] == [
        {"name": "nnm", "parameters": {"f": 2}},
        {"name": "clipping", "parameters": {"bound": 1.5}},
    ]
    assert checked["rule"] == {"name": "multi-krum", "parameters": {"f": 2, "m": 4}}


def test_a_parameter_under_a_parts_name_is_that_parts_alone():
    checked = parse("nnm + trimmed-mean").check({"f": 1, "nnm": {"f": 3}})
    assert checked["preaggregations"][0]["parameters"] == {"f": 3}
    assert checked["rule"]["parameters"] == {"f": 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"bund": 1.0}, ['defense "clipping + trimmed-mean" has no parameter "bund"', 'did you mean "bound"?']),
        ({"kappa": 1.0}, ['no parameter "kappa"', "bound (float", "clipping.PARAMETER, trimmed-mean.PARAMETER"]),
        ({"clipping": {"f": 1}}, ['preaggregation "clipping"', '"f"']),
        ({"clipping": 1.0}, ["clipping must be a table of its parameters"]),
        ({"nnm": {"f": 1}}, ['no parameter "nnm"']),
        ({"bound": -1.0}, ['preaggregation "clipping"', "bound"]),
    ],
)
def test_a_parameter_that_no_part_takes_is_refused_in_one_sentence(given, words):
    with pytest.raises(ParameterError) as refused:
        parse("clipping + trimmed-mean").check(given)
    (line,) = str(refused.value).splitlines()
    assert all(word in line for word in words), line


# Rules


@pytest.mark.parametrize("text", ["greedy", "clipping + greedy", "fragment-exchange + greedy"])
def test_a_rule_cannot_write_into_the_rows(text, own_registry):
    @rule("greedy", title="Greedy")
    def greedy(updates):
        updates[0] = 0
        return updates[0]

    chain = begun(parse(text).check({}))
    transcript = transmitted(chain, 0)
    with pytest.raises(ValueError, match="read-only"):
        chain.aggregate(transcript)


def test_a_preaggregation_that_regroups_must_say_so(own_registry):
    @preaggregation("halves", title="Halves")
    def halves(updates):
        return np.full((2, len(updates)), 0.5)

    chain = begun(parse("halves + median").check({}))
    transcript = transmitted(chain, 0)
    with pytest.raises(ParameterError, match="returned 2 rows for 8; register it with regroups=True"):
        chain.aggregate(transcript)


def test_weights_behind_a_preaggregation_are_those_of_the_rows_it_combines(own_registry):
    seen = []

    @rule("looking", title="Looking")
    def looking(updates, *, weights):
        seen.append(weights)
        return updates.mean(0)

    @preaggregation("firsts", title="Firsts", regroups=True)
    def firsts(updates):
        return np.array([[1, 3, *[0] * (len(updates) - 2)], np.eye(len(updates))[4]])

    chain = begun(parse("firsts + looking").check({}))
    chain.aggregate(transmitted(chain, 0))
    np.testing.assert_allclose(seen[0], [10 / 4 + 3 * 20 / 4, 50])


def test_a_chain_assumes_as_few_attackers_as_any_of_its_parts():
    assert defense("nnm + trimmed-mean", nnm={"f": 1}, f=3).assumed_attackers(10, 10) == 1
    assert defense("nnm + trimmed-mean", nnm={"f": 3}, f=1).assumed_attackers(10, 10) == 1
    assert defense("nnm + median", f=2).assumed_attackers(10, 10) == 2
    assert defense("clipping + median").assumed_attackers(10, 10) is None


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("fragment-exchange + trimmed-mean", True),
        ("fragment-exchange + nnm + median", True),
        ("fragment-exchange + median", False),
        ("nnm + trimmed-mean", False),
    ],
)
def test_a_chain_that_counts_attackers_says_where_rows_are_mixtures(text, flagged):
    sentence = "rows are mixtures of several participants' updates, so that f attackers can reach more than f of them"
    assert (sentence in begun(parse(text).check({})).flags()) == flagged


# Transports


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({"rows": "cells"}, "Odd.rows must be one of participant, mixture, group, anonymous, sum"),
        ({"deviation": 3}, "Odd.deviation must be a subclass of Deviation, or None"),
        ({"multiple": 0}, "Odd.multiple must be a whole number from 1"),
    ],
)
def test_a_transport_that_declares_nonsense_is_refused(declared, sentence):
    with pytest.raises(TypeError, match=sentence):
        type("Odd", (Transport,), declared)


def test_what_a_function_can_ask_for_is_what_the_registry_takes_for_no_parameter():
    assert set(FILL) == set(registration.FILLED_IN)


def test_a_rule_hears_of_senders_of_nan_where_a_preaggregation_has_no_answer():
    chain = defense("nnm + reputation", f=3)
    chain.begin(Setting(8, 8, np.full(8, 10), COLUMNS), SEED)
    rows = np.random.default_rng(0).normal(size=(8, COLUMNS.count)).astype(np.float32)
    rows[2:] = np.nan
    transcript = chain.transmit(0, np.zeros(COLUMNS.count, np.float32), np.arange(8), rows)
    with pytest.raises(NoAnswerError, match="nnm") as none:
        chain.aggregate(transcript)
    assert set(none.value.feedback) == set(range(2, 8))
    assert (chain.rule.memory["global"][2:] < 0).all()
    assert not chain.rule.memory["global"][:2].any()

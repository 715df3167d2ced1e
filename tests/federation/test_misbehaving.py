"""Parts from outside that break their contract: each is refused in one sentence, and none changes what is recorded."""

from dataclasses import replace

import numpy as np
import pytest

from fflbench import aggregate, registry
from fflbench.errors import ParameterError
from fflbench.federation import Rule, Transcript, Transport
from fflbench.federation.chain import defense, parse
from fflbench.federation.rounds import Federation
from fflbench.measures.robustness import outcome_of_federation
from fflbench.registration import preaggregation, rule, transport
from fflbench.registry import Kind
from tests.federation.chains import COLUMNS, begun, transmitted


def federation(text, **given):
    task = registry.get(Kind.TASK, "digits-mlp").create(rounds=1)
    return Federation(task, registry.get(Kind.ATTACK, "gaussian-noise").create(), defense(text, **given), seed=0)


def refused(text):
    """Return the sentence that refuses the first round of a chain."""
    chain = begun(parse(text).check({}))
    with pytest.raises(ParameterError) as refusal:
        chain.aggregate(transmitted(chain, 0))
    (line,) = str(refusal.value).splitlines()
    return line


# Rules


@pytest.mark.parametrize("answer", [None, "text", ([0.0], {}, 3), (None, {}), [None]], ids=str)
@pytest.mark.parametrize("text", ["odd", "fragment-exchange + odd"])
def test_a_rule_must_answer_with_numbers(answer, text, own_registry):
    @rule("odd", title="Odd")
    def odd(updates):
        return answer

    assert refused(text) == 'rule "odd" must return the change of the model as numbers, or (change, feedback)'
    with pytest.raises(ParameterError, match='rule "odd" must return'):
        aggregate("odd", np.ones((3, 2)))


@pytest.mark.parametrize("feedback", [[1.0], {"a": 1.0}, {0: "b"}, {-1: 1.0}, {8: 1.0}, {10**12: 1.0}], ids=str)
@pytest.mark.parametrize("text", ["chatty", "fragment-exchange + chatty"])
def test_feedback_is_a_number_for_each_of_some_participants(feedback, text, own_registry):
    @rule("chatty", title="Chatty")
    def chatty(updates):
        return updates.mean(0), feedback

    assert refused(text) == "feedback must be numbers by participants, who are numbered from 0 to 7"


@pytest.mark.parametrize("chosen", [[1, 2], np.array([3, 1]), np.array([1, 1]), np.array([1, 8]), np.array([-1, 1]),
                                    np.array([], int), np.array([0.0, 1.0])], ids=repr)  # fmt: skip
def test_a_rule_must_select_participants_in_order(chosen, own_registry):
    @rule("picky", title="Picky")
    class Picky(Rule):
        def select(self, round, rng):
            return chosen

        def aggregate(self, view, rng):
            return view.rows.mean(0)

    assert refused("picky") == (
        "a rule must select at least one of participants 0 to 7, in ascending order, as an array of whole numbers"
    )


def test_a_rule_cannot_change_who_is_recorded_as_selected(own_registry):
    @rule("greedy", title="Greedy")
    def greedy(updates, *, participants):
        participants[:] = 0
        return updates.mean(0)

    with pytest.raises(ValueError, match="read-only"):
        federation("greedy").run_round()


def test_a_rule_cannot_change_the_callers_weights(own_registry):
    @rule("greedy", title="Greedy")
    def greedy(updates, *, weights):
        weights *= 0
        return updates.mean(0)

    with pytest.raises(ValueError, match="read-only"):
        aggregate("greedy", np.ones((3, 2)), weights=np.ones(3))


# What is reported


def test_a_rule_cannot_report_the_rounds_own_figures(own_registry):
    @rule("boastful", title="Boastful")
    class Boastful(Rule):
        def aggregate(self, view, rng):
            return view.rows.mean(0)

        def report(self):
            return {"accuracy": 1.0}

    with pytest.raises(ParameterError, match='its defense reports "accuracy", which the round reports itself'):
        federation("boastful").run_round()


def test_a_transport_cannot_report_the_rounds_own_figures(own_registry):
    @transport("boastful", title="Boastful")
    class Boastful(Transport):
        def transmit(self, upload):
            transcript = self.submitted(upload)
            transcript.facts["accuracy"] = 1.0
            return transcript

    with pytest.raises(ParameterError, match='its defense reports "accuracy", which the round reports itself'):
        federation("boastful").run_round()


def test_a_transports_summary_cannot_replace_the_facts_of_a_record(own_registry):
    @transport("boastful", title="Boastful")
    class Boastful(Transport):
        def transmit(self, upload):
            return self.submitted(upload)

        def flags(self):
            return ["boastful"]

        def summary(self, history, attackers):
            return {"flags": [], "attackers": [], "waits": 3}

    it = federation("boastful")
    it.run_round()
    facts = outcome_of_federation(it).facts
    assert facts["flags"] == ["boastful"]
    assert facts["attackers"] == it.attackers.tolist()
    assert facts["waits"] == 3


# Transports


def answering(change):
    """Register a transport that returns this of a plain transcript."""

    @transport("odd", title="Odd")
    class Odd(Transport):
        def transmit(self, upload):
            return change(self.submitted(upload))


def with_view(**changes):
    def changed(transcript):
        transcript.server = replace(transcript.server, **changes)
        return transcript

    return changed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda transcript: None, "Odd.transmit must return a Transcript with the View of a server"),
        (lambda transcript: Transcript(0), "Odd.transmit must return a Transcript with the View of a server"),
        (with_view(rows=np.ones((8, 3))), "Odd.transmit: the rows of a server's view must be a matrix of 12 columns"),
        (with_view(rows=np.ones(12)), "Odd.transmit: the rows of a server's view must be a matrix of 12 columns"),
        (with_view(weights=np.ones(3)), "Odd.transmit: a server's view must have weights for each of its 8 rows"),
        (with_view(sizes=np.ones(3)), "Odd.transmit: a server's view must have sizes for each of its 8 rows"),
        (with_view(participants=None), "Odd.transmit: a server's view must have participants for each of its 8 rows"),
    ],
)  # fmt: skip
def test_a_transport_must_show_the_server_a_whole_view(change, sentence, own_registry):
    answering(change)
    assert refused("odd + median") == sentence


def test_rows_that_a_transport_does_not_let_go_of_are_cleaned_too(own_registry):
    def planted(transcript):
        rows = transcript.server.rows.copy()
        rows[1] = np.nan
        rows.flags.writeable = False
        return with_view(rows=rows)(transcript)

    answering(planted)
    chain = begun(parse("odd + median").check({}))
    view = transmitted(chain, 0).server
    assert view.dropped.tolist() == [1]
    assert np.isfinite(chain.aggregate(transmitted(chain, 0))).all()


def test_rows_that_a_transport_dropped_itself_stay_dropped(own_registry):
    def planted(transcript):
        transcript.server.rows[1] = np.nan
        return with_view(dropped=np.array([7]))(transcript)

    answering(planted)
    assert transmitted(begun(parse("odd").check({})), 0).server.dropped.tolist() == [7, 1]


# Pre-aggregations


def test_behind_a_regrouping_rows_have_no_sender_even_where_there_are_as_many(own_registry):
    @rule("looking", title="Looking")
    class Looking(Rule):
        def aggregate(self, view, rng):
            assert view.participants is None
            assert view.sizes is None
            return view.rows.mean(0)

    chain = begun(parse("bucketing + looking").check({"s": 1}))
    assert chain.aggregate(transmitted(chain, 0)).shape == (COLUMNS.count,)


def test_a_regrouping_may_depend_on_norms_and_senders(own_registry):
    @preaggregation("longest", title="Longest", regroups=True)
    def longest(updates, *, norms, participants):
        return np.eye(len(updates))[(norms > np.median(norms)) & (participants >= 0)]

    chain = begun(parse("longest + median").check({}))
    assert chain.rule.setting.rows == 4
    assert np.isfinite(chain.aggregate(transmitted(chain, 0))).all()


def test_a_regrouping_that_leaves_no_row_keeps_the_model(own_registry):
    @preaggregation("nobody", title="Nobody", regroups=True)
    def nobody(updates):
        return np.empty((0, len(updates)))

    it = federation("nobody + median")
    assert it.run_round()["kept_because"] == "no update was left"


def test_a_regrouping_whose_f_is_too_large_is_refused_or_keeps_the_model(own_registry):
    @preaggregation("fewer", title="Fewer", regroups=True, tolerates="f < n/2")
    def fewer(updates, f: int):
        return np.eye(len(updates))[f:]

    with pytest.raises(ParameterError, match='preaggregation "fewer" needs f < n/2, but f = 4 and n = 8'):
        begun(parse("fewer + median").check({"f": 4}))
    chain = begun(parse("fewer + median").check({"f": 3}))
    assert chain.assumed_attackers(8, 5) == 3

import time

import numpy as np
import pytest

from fflbench import registration, registry
from fflbench.errors import ParameterError
from fflbench.federation import Columns, NoAnswerError, Rule, Transport
from fflbench.federation.chain import defense
from fflbench.federation.ledger import Ledger
from fflbench.measures import Context, published_results, runtime
from fflbench.measures.one_round import begin_chain
from fflbench.registry import Kind


def run_runtime(text, task="digits-mlp", settings=(), whole=True, **parameters):
    steps = []
    measure = registry.get(Kind.MEASURE, "runtime").create(**({"repeats": 2} | dict(settings)))
    learning = registry.get(Kind.TASK, task).create()
    outcome = measure.run(
        Context(learning, defense(text, **parameters), seed=0, report=lambda step, _: steps.append(step))
    )
    assert not whole or steps == list(range(1, measure.step_count(learning) + 1))
    assert set(outcome.metrics) == {metric.name for metric in measure.metrics}
    return outcome


def test_ffl_is_timed_in_three_parts_and_a_rule_in_one():
    ffl = run_runtime("ffl", mode="full").metrics
    assert min(ffl["decryption_seconds"], ffl["aggregation_seconds"], ffl["participant_seconds"]) > 0
    assert ffl["seconds"] == pytest.approx(ffl["decryption_seconds"] + ffl["aggregation_seconds"])
    median = run_runtime("median").metrics
    assert median["aggregation_seconds"] > 0
    assert median["decryption_seconds"] == median["participant_seconds"] == 0


@pytest.mark.parametrize("name", ["fedavg", "median", "trimmed-mean", "multi-krum", "krum", "foolsgold"])
def test_every_rule_can_be_timed(name):
    found = run_runtime(name, settings={"updates": 6}.items())
    assert len(found.history) == 2
    assert found.facts["columns"] == 2410


def test_a_participant_is_charged_for_its_noise():
    pytest.importorskip("dp_accounting")
    assert run_runtime("ldp").metrics["participant_seconds"] > 0


def test_a_slow_server_shows_and_waiting_before_the_round_does_not(own_registry, monkeypatch):
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(runtime.time, "perf_counter", lambda: now[0])

    @registration.transport("idle", title="Idle")
    class Idle(Transport):
        """Sleeps while it begins and transmits."""

        def begin(self, setting, entropy):
            super().begin(setting, entropy)
            sleep(100)

        def transmit(self, upload):
            transcript = self.submitted(upload)
            with transcript.timed("server"):
                sleep(7)
            with transcript.timed("participants"):
                sleep(20)
            sleep(1000)
            return transcript

    @registration.rule("drowsy", title="Drowsy")
    def drowsy(updates):
        """Sleeps while it aggregates."""
        sleep(5)
        return updates[0]

    found = run_runtime("idle + drowsy").metrics
    assert (found["aggregation_seconds"], found["decryption_seconds"], found["participant_seconds"]) == (5, 7, 2)
    assert (found["seconds"], found["aggregation_spread"]) == (12, 0)


def test_a_defense_that_only_simulates_its_protocol_is_refused():
    measure = registry.get(Kind.MEASURE, "runtime").create()
    task = registry.get(Kind.TASK, "digits-mlp").create()
    with pytest.raises(ParameterError, match=r'leave out keys, pads and messages .set mode = "full".'):
        measure.check(task, defense("ffl"))
    measure.check(task, defense("ffl", mode="full"))


def test_every_round_starts_from_the_same_memory(own_registry):
    seen = []

    @registration.rule("counting", title="Counting")
    class Counting(Rule):
        """Remembers how often it was asked."""

        def begin(self, setting):
            super().begin(setting)
            self.memory["asked"] = np.zeros(1)

        def aggregate(self, view, rng):
            self.memory["asked"] += 1
            seen.append(self.memory["asked"].item())
            return view.rows[0]

    run_runtime("counting")
    assert seen == [1, 1, 1]


def test_peak_memory_is_that_of_updates_and_what_the_rule_adds(own_registry):
    @registration.rule("hoarder", title="Hoarder")
    def hoarder(updates):
        """Copies everything twice."""
        return updates.copy()[0] + updates.copy()[0]

    @registration.rule("modest", title="Modest")
    def modest(updates):
        """Copies nothing."""
        return updates[0]

    for name, wanted in (("hoarder", 3), ("modest", 1)):
        found = run_runtime(name, "mnist-cnn", {"updates": 20}.items())
        assert found.metrics["peak_bytes"] / found.facts["updates_bytes"] == pytest.approx(wanted, abs=0.2)


def test_long_runs_are_repeated_less_but_twice_at_least(own_registry):
    @registration.rule("slow", title="Slow")
    def slow(updates):
        """Takes its time."""
        time.sleep(0.05)
        return updates[0]

    assert run_runtime("slow", settings={"repeats": 4, "patience": 0.0}.items(), whole=False).facts["timed_runs"] == 2
    assert run_runtime("slow", settings={"repeats": 3}.items()).facts["timed_runs"] == 3


def test_an_odd_number_of_updates_is_refused_where_participants_work_in_pairs():
    measure = registry.get(Kind.MEASURE, "runtime").create(updates=5)
    task = registry.get(Kind.TASK, "digits-mlp").create()
    with pytest.raises(ParameterError, match="updates = 5 leaves somebody over; take a multiple of 2"):
        measure.check(task, defense("ffl", mode="full"))
    measure.check(task, defense("median"))


def test_a_rule_without_an_aggregate_and_a_protocol_without_messages_are_refused(own_registry):
    @registration.rule("tired", title="Tired")
    def tired(updates):
        """Has no aggregate."""
        raise NoAnswerError("too tired")

    @registration.transport("mute", title="Mute")
    class Mute(Transport):
        """Sends nothing that is counted."""

        def transmit(self, upload):
            transcript = self.submitted(upload)
            transcript.ledger = Ledger()
            return transcript

    with pytest.raises(ParameterError, match="no aggregate of random updates: too tired"):
        run_runtime("tired")
    task = registry.get(Kind.TASK, "digits-mlp").create()
    with pytest.raises(ParameterError, match="enters none to the server in the ledger"):
        registry.get(Kind.MEASURE, "communication").create().run(Context(task, defense("mute"), seed=0))


def test_large_models_are_also_timed_with_shorter_updates(monkeypatch):
    monkeypatch.setattr(runtime, "SHORTER", (500, 1000, 2000))
    found = run_runtime("median", settings={"updates": 4}.items())
    # 2,000 is more than half of 2,410.
    assert [settings["columns"] for settings in found.history] == [2410, 2410, 500, 500, 1000, 1000]
    assert found.metrics["aggregation_seconds"] == pytest.approx(
        np.mean([settings["aggregation"] for settings in found.history[:2]])
    )


def test_a_shorter_model_keeps_its_last_layer():
    columns = registry.get(Kind.TASK, "digits-mlp").create().columns()
    shorter = columns.truncated(1000)
    assert (shorter.count, shorter.parameters) == (1000, slice(0, 1000))
    last = columns.last_layer.stop - columns.last_layer.start
    assert shorter.last_layer == slice(1000 - last, 1000)


def test_rounds_exchange_and_decrypt_for_real():
    chain = defense("ffl", mode="full")
    updates = np.random.default_rng(0).standard_normal((4, 50), dtype=np.float32)
    before = updates.copy()
    next(runtime.time_rounds(begin_chain(chain, 4, Columns.of_length(50), 0), updates))
    assert not np.array_equal(updates, before)
    np.testing.assert_array_equal(np.sort(updates, axis=0), np.sort(before, axis=0))


def test_published_results_are_looked_up_by_task_updates_and_defense():
    (figure,) = published_results.find_figures(
        task="mnist-cnn", updates=10, defense="median", metric="aggregation_seconds"
    )
    assert figure.number == 0.002
    assert published_results.find_figures(task="nothing") == []

import time

import numpy as np
import pytest

from fflbench import registry
from fflbench.cost import paper, runtime
from fflbench.cost.play import begun
from fflbench.errors import ParameterError
from fflbench.federation import Columns, Defense
from fflbench.measures import columns_of
from fflbench.registry import Kind


def measured(defense, task="digits-mlp", told=(), **parameters):
    steps = []
    finding = registry.get(Kind.MEASURE, "runtime").create(**({"repeats": 2} | dict(told)))
    guarding = registry.get(Kind.DEFENSE, defense).create(**parameters)
    outcome = finding.play(registry.get(Kind.TASK, task).create(), guarding, 0, steps.append)
    assert steps == list(range(1, finding.steps() + 1))
    return outcome


def test_ffl_is_timed_in_three_parts_and_a_rule_in_one():
    ffl = measured("ffl", mode="full").metrics
    assert min(ffl["decryption_seconds"], ffl["aggregation_seconds"], ffl["mixing_seconds"]) > 0
    assert ffl["seconds"] == pytest.approx(ffl["decryption_seconds"] + ffl["aggregation_seconds"])
    median = measured("median").metrics
    assert median["aggregation_seconds"] > 0
    assert median["decryption_seconds"] == median["mixing_seconds"] == 0


@pytest.mark.parametrize("name", ["fedavg", "median", "trimmed-mean", "multi-krum", "krum", "foolsgold"])
def test_every_rule_can_be_timed(name):
    found = measured(name, told={"updates": 6}.items())
    assert len(found.history) == 2
    assert found.facts["columns"] == 2410


def test_a_slow_server_shows_and_waiting_before_the_round_does_not(own_registry):
    @registry.defense("idle", title="Idle")
    class Idle(Defense):
        """Sleeps while it aggregates."""

        def begin(self, setting):
            super().begin(setting)
            time.sleep(0.2)

        def aggregate(self, view):
            time.sleep(0.05)
            return view.updates[0]

    found = measured("idle").metrics
    assert 0.05 <= found["aggregation_seconds"] < 0.15
    assert found["aggregation_spread"] < 0.05


def test_a_defense_that_only_simulates_its_protocol_is_refused():
    finding = registry.get(Kind.MEASURE, "runtime").create()
    task = registry.get(Kind.TASK, "digits-mlp").create()
    with pytest.raises(ParameterError, match=r'leaves out keys, pads and messages .set mode = "full".'):
        finding.check(task, registry.get(Kind.DEFENSE, "ffl").create())
    finding.check(task, registry.get(Kind.DEFENSE, "ffl").create(mode="full"))


def test_every_round_starts_from_the_same_memory(own_registry):
    seen = []

    @registry.defense("counting", title="Counting")
    class Counting(Defense):
        """Remembers how often it was asked."""

        def begin(self, setting):
            super().begin(setting)
            self.memory["asked"] = np.zeros(1)

        def aggregate(self, view):
            self.memory["asked"] += 1
            seen.append(self.memory["asked"].item())
            return view.updates[0]

    measured("counting")
    assert seen == [1, 1, 1]


def test_peak_memory_is_that_of_updates_and_what_the_rule_adds(own_registry):
    @registry.defense("hoarder", title="Hoarder")
    def hoarder(updates):
        """Copies everything twice."""
        return updates.copy()[0] + updates.copy()[0]

    for name, least, most in (("hoarder", 2.9, 3.3), ("krum", 1.0, 4.0)):
        found = measured(name, "mnist-cnn", {"updates": 20}.items())
        times = found.metrics["peak_bytes"] / found.facts["updates_bytes"]
        assert least < times < most


def test_large_models_are_also_timed_with_shorter_updates(monkeypatch):
    monkeypatch.setattr(runtime, "SCALING", (500, 1000, 2000))
    found = measured("median", told={"updates": 4}.items())
    # 2,000 is more than half of 2,410.
    assert [told["columns"] for told in found.history] == [2410, 2410, 500, 500, 1000, 1000]
    assert found.metrics["aggregation_seconds"] == pytest.approx(
        np.mean([told["aggregation"] for told in found.history[:2]])
    )


def test_a_shorter_model_keeps_its_last_layer():
    columns = columns_of(registry.get(Kind.TASK, "digits-mlp").create())
    shorter = runtime._first(columns, 1000)
    assert (shorter.count, shorter.parameters) == (1000, slice(0, 1000))
    last = columns.last_layer.stop - columns.last_layer.start
    assert shorter.last_layer == slice(1000 - last, 1000)


def test_rounds_mix_and_decrypt_for_real():
    defense = registry.get(Kind.DEFENSE, "ffl").create(mode="full")
    updates = np.random.default_rng(0).standard_normal((4, 50), dtype=np.float32)
    before = updates.copy()
    next(runtime.rounds(begun(defense, 4, Columns.plain(50), 0), updates))
    assert not np.array_equal(updates, before)
    np.testing.assert_array_equal(np.sort(updates, axis=0), np.sort(before, axis=0))


def test_the_papers_table_is_whole():
    assert len(paper.RUNTIME) == 4 * 3 * 6
    assert paper.RUNTIME["cifar10-vgg16", 100, "ffl"] == (3.675, 4.883, 1.319)
    assert paper.RUNTIME["imdb-bilstm", 50, "multi-krum"] == (0, 5.657, 0)
    assert paper.RUNTIME["mnist-cnn", 10, "trimmed-mean"] == (0, 0.007, 0)

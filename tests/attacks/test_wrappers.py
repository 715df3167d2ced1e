"""Attacks that wrap another one, and chains of them."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fflbench
from fflbench import registry
from fflbench.errors import FflbenchError, ParameterError
from fflbench.federation import attack_chain, chain
from fflbench.federation.rounds import Federation
from fflbench.plugin import Attack, AttackWrapper, attack
from fflbench.records.manifest import results_versions
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


def create(text, **parameters):
    entries = attack_chain.parse(text)
    return entries[0].create(**attack_chain.configure(entries, parameters)["parameters"])


def federation(text, defense="fedavg", rounds=4, participants=10, **parameters):
    fields = {"participants": participants, "per_round": participants, "rounds": rounds}
    task = registry.get(Kind.TASK, "digits-mlp").create(**fields)
    return Federation(
        task, create(text, **parameters), chain.defense(defense) if isinstance(defense, str) else defense, 0
    )


def models(it):
    return [(it.run_round(), it.weights.tobytes())[1] for _ in range(it.task.rounds)]


@pytest.mark.parametrize("inner", ["gaussian-noise", "label-flipping", "optimal-inner-product"])
def test_on_off_is_its_inner_attack_in_some_rounds_and_nothing_in_others(inner):
    always, never = models(federation(f"on-off + {inner}", period=1, duty=1)), models(federation("none"))
    assert always == models(federation(inner))
    some = models(federation(f"on-off + {inner}", period=4, duty=2))
    assert some[:2] == never[:2]
    assert some[2] not in (always[2], never[2])


def poisoned(name, honest, own, **parameters):
    return fflbench.poison(name, honest, attackers=len(own), own=own, **parameters)


HONEST = np.random.default_rng(0).normal(size=(7, 40)) * np.arange(1, 8)[:, None]
OWN = np.random.default_rng(1).normal(size=(3, 40))


@pytest.mark.parametrize("norm", ["honest", "own"])
def test_norm_matched_updates_keep_their_direction_and_get_an_honest_norm(norm):
    rows = poisoned("norm-matched + gaussian-noise", HONEST, OWN, norm=norm, sigma=3.0)
    inner = poisoned("gaussian-noise", HONEST, OWN, sigma=3.0)
    expected = sorted(np.sqrt((row**2).sum()) for row in HONEST)[3] if norm == "honest" else np.linalg.norm(OWN, axis=1)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.broadcast_to(expected, 3), rtol=1e-5)
    np.testing.assert_allclose(np.corrcoef(rows, inner)[range(3), range(3, 6)], 1, rtol=1e-5)
    assert ("honest updates" in create("norm-matched + gaussian-noise", norm=norm).needed_knowledge) == (
        norm == "honest"
    )


def poison_in_a_round(it):
    """Attackers' rows of a federation's present round, those of honest participants, and both as trained."""
    selected = it.select()
    updates = it.train(selected)
    trained, hostile = updates.copy(), np.isin(selected, it.attackers)
    it.poison(selected, updates)
    return updates[hostile], trained[hostile], trained[~hostile]


def test_an_honest_last_layer_stands_beside_the_reversed_rest_at_the_median_norm():
    it = federation("norm-matched + sign-flipping", last_layer="honest", share=0.3)
    rows, own, honest = poison_in_a_round(it)
    last = it.model.columns.last_layer
    np.testing.assert_array_equal(rows[:, last], own[:, last])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.median(np.linalg.norm(honest, axis=1)), rtol=1e-5)
    rest = slice(0, last.start)
    assert (rows[:, rest] * own[:, rest] <= 0).all()
    np.testing.assert_allclose(np.corrcoef(rows[:, rest], own[:, rest])[range(3), range(3, 6)], -1, rtol=1e-5)


def test_without_it_norm_matched_sign_flipping_reverses_the_last_layer_too():
    it = federation("norm-matched + sign-flipping", share=0.3)
    rows, own, _ = poison_in_a_round(it)
    last = it.model.columns.last_layer
    np.testing.assert_allclose(np.corrcoef(rows[:, last], own[:, last])[range(3), range(3, 6)], -1, rtol=1e-5)


def test_an_honest_last_layer_may_stand_beside_a_poisoned_rest_of_its_own_norm():
    it = federation("norm-matched + sign-flipping", last_layer="honest", norm="poisoned", factor=7.0, share=0.3)
    rows, own, _ = poison_in_a_round(it)
    np.testing.assert_array_equal(rows[:, it.model.columns.last_layer], own[:, it.model.columns.last_layer])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 7 * np.linalg.norm(own, axis=1), rtol=1e-5)
    assert "honest updates" not in it.attack.needed_knowledge
    with pytest.raises(ParameterError, match="needs an honest last layer"):
        create("norm-matched + sign-flipping", norm="poisoned")


def test_a_last_layer_longer_than_the_wanted_norm_is_sent_alone():
    rows = poisoned("norm-matched + gaussian-noise", HONEST / 100, OWN, last_layer="honest")
    # Beside a matrix the whole row is the last layer.
    np.testing.assert_array_equal(rows, OWN.astype(np.float32))


def trust_of_attackers(attack, defense=None, **parameters):
    """Mean share of the weight that reputation gives to attackers, over the rounds of a cell without mixing."""
    it = federation(attack, chain.defense("reputation", **(defense or {})), rounds=8, participants=20, **parameters)
    history = [it.run_round() for _ in range(8)]
    hostile = [sum(item["trust"].get(str(who), 0) for who in it.attackers) for item in history]
    return np.mean([own / sum(item["trust"].values()) for own, item in zip(hostile, history, strict=True)])


def test_an_honest_last_layer_wins_trust_that_a_reversed_one_loses():
    assert trust_of_attackers("norm-matched + sign-flipping", last_layer="honest") > 0.15
    assert trust_of_attackers("norm-matched + sign-flipping") < 0.02


def test_a_sacrificial_outlier_wins_trust_for_long_updates_unless_distances_are_robust():
    """Ten times as long as honest updates, with honest last layers."""
    reversed_rest = "norm-matched + sign-flipping"
    long = {"last_layer": "honest", "norm": "poisoned", "sign-flipping": {"factor": 10.0}, "share": 0.3}
    assert trust_of_attackers(f"sacrificial-outlier + {reversed_rest}", **long) > 0.02
    assert trust_of_attackers(reversed_rest, **long) < 0.001
    robust = {"distance_scale": "median"}
    assert trust_of_attackers(f"sacrificial-outlier + {reversed_rest}", robust, **long) < 0.001


def test_a_sacrificial_outlier_is_sent_by_the_first_attacker_alone():
    inner = {"defense": "fedavg", "evaluations": 5}
    rows = poisoned("sacrificial-outlier + optimal-inner-product", HONEST, OWN, factor=50.0, **inner)
    np.testing.assert_allclose(rows[0], -50 * OWN[0], rtol=1e-5)
    mean = HONEST.mean(0)
    factors = rows[1:] @ -mean / (mean @ mean)
    np.testing.assert_allclose(rows[1:], np.outer(factors, -mean), rtol=1e-4, atol=1e-5)
    assert factors.min() >= 10
    alone = poisoned("sacrificial-outlier + optimal-inner-product", HONEST, OWN[:1], **inner)
    np.testing.assert_array_equal(alone, poisoned("optimal-inner-product", HONEST, OWN[:1], **inner))


def test_an_inner_search_simulates_the_rows_that_are_sent(own_registry):
    seen = []

    @attack("looks", title="Looks", knows=["own data", "attackers' updates", "honest updates", "defense"])
    class Looks(Attack):
        """Keeps what its rows would lead to."""

        def poison_updates(self, known):
            before = 1000 * known.updates
            rows = before.copy()
            seen.append(known.simulate(rows))
            np.testing.assert_array_equal(rows, before)
            return rows

    rows = poisoned("norm-matched + looks", HONEST, OWN, defense="fedavg")
    np.testing.assert_allclose(seen[0], np.vstack([HONEST, rows]).mean(0), rtol=1e-4, atol=1e-5)
    rows = poisoned("sacrificial-outlier + norm-matched + looks", HONEST, OWN, defense="fedavg")
    np.testing.assert_allclose(seen[1], np.vstack([HONEST, rows]).mean(0), rtol=1e-4, atol=1e-4)


def test_an_inner_attack_knows_what_it_declares_and_no_more(own_registry):
    shapes = []

    @attack("curious", title="Curious", knows=["own data"])
    class Curious(Attack):
        """Asks for more than it declares."""

        def poison_updates(self, known):
            shapes.append(known.updates.shape)
            with pytest.raises(PermissionError, match="honest updates"):
                _ = known.honest
            return known.updates

    poisoned("norm-matched + curious", HONEST, OWN)
    # The outer attack declares "attackers' updates", the inner one does not.
    poisoned("sacrificial-outlier + curious", HONEST, OWN)
    assert shapes == [(1, 40)] * 6
    assert create("norm-matched + on-off + adaptive-search").needed_knowledge == (
        *("own data", "honest updates", "attackers' updates", "defense"),
    )


def test_memories_of_both_attacks_are_saved_and_restored(own_registry):
    @attack("counts", title="Counts", knows=["own data"])
    class Counts(Attack):
        """Grows with the number of calls."""

        def poison_updates(self, known):
            self.memory["calls"] = self.memory.get("calls", np.zeros(1)) + 1
            return (known.updates * self.memory["calls"][0]).astype(np.float32)

    @attack("counts-too", title="Counts too", knows=["own data"])
    class CountsToo(AttackWrapper):
        """Grows with the number of calls, too."""

        def change_rows(self, known, participants, rows):
            self.memory["calls"] = self.memory.get("calls", np.ones(1)) - 0.25
            return (rows * self.memory["calls"][0]).astype(np.float32)

    whole, stopped, resumed = (federation("counts-too + on-off + counts", period=2, duty=1) for _ in range(3))
    expected = models(whole)
    for _ in range(3):
        stopped.run_round()
    resumed.restore(stopped.state())
    assert set(stopped.attack.memories) == {"attack", "inner-attack", "inner-inner-attack"}
    resumed.run_round()
    assert resumed.weights.tobytes() == expected[-1]
    assert whole.attack.wrapped.wrapped.memory["calls"] == [4]


DOCS = Path(__file__).parents[2] / "docs"
SUITE = {"tasks": ["digits-mlp"], "defenses": ["fedavg"], "seeds": [0]}


def configurations(attacks, **tables):
    cells = plan(parse({**SUITE, "attacks": attacks, "attack": tables}, "own", "own.toml"))
    return {cell.labels["attack"]: cell for cell in cells}


def test_a_suite_names_a_chain_and_sets_parameters_of_its_parts():
    cells = configurations(
        ["none", "on-off + label-flipping", "late"],
        late={"use": "norm-matched + on-off + gaussian-noise", "duty": [1, 2], "gaussian-noise": {"sigma": 2.0}},
    )
    # The task's own source and target of label flipping apply inside, too.
    flipping = cells["on-off + label-flipping"].configuration["attack"]
    inner = {"name": "label-flipping", "parameters": {"source": 7, "target": 1}}
    assert flipping == {"name": "on-off", "parameters": {"share": 0.2, "inner": inner, "period": 10, "duty": 5}}
    assert cells["none"].configuration["goals"] == [inner]
    late = cells["late (duty = 2)"]
    assert late.sweep["attack"] == {"parameter": "duty", "value": 2, "label": "late"}
    assert late.attack.wrapped.wrapped.sigma == 2.0
    assert late.attack.wrapped.duty == 2
    assert set(results_versions(late.configuration)) > {"attack", "attack + on-off", "attack + on-off + gaussian-noise"}
    assert registry.get(Kind.ATTACK, "on-off").create().wrapped.sigma == 0.5


@pytest.mark.parametrize(
    ("text", "table", "reason"),
    [
        ("gaussian-noise + on-off", {}, 'attack "gaussian-noise" wraps no other attack, so that it must stand last'),
        ("on-off + min-mux", {}, 'attack "min-mux" is not registered'),
        ("on-off + on-off + gaussian-noise", {}, "names on-off twice"),
        ("on-off + gaussian-noise", {"sgma": 1.0}, 'has no parameter "sgma"; did you mean "sigma"'),
        ("on-off + gaussian-noise", {"gaussian-noise": {"share": 0.5}}, "share is that of the whole chain"),
        ("on-off + gaussian-noise", {"on-off": {"inner": {}}}, "the chain itself names the attack inside on-off"),
        ("on-off + gaussian-noise", {"inner": {}}, 'has no parameter "inner"'),
        ("on-off + gaussian-noise", {"duty": 11}, "duty = 11 must be at most period = 10"),
        ("on-off + gaussian-noise", {"gaussian-noise": 3}, "must be a table of its parameters"),
        ("on-off + label-flipping", {"source": 12}, "source = 12"),
    ],
)
def test_a_chain_that_cannot_work_is_refused_in_one_sentence(text, table, reason):
    with pytest.raises(FflbenchError, match=r"own\.toml") as refused:
        configurations(["chained"], chained={"use": text, **table})
    assert reason in str(refused.value)


def test_the_wrapper_and_the_suite_in_the_documentation_work(own_registry, tmp_path):
    (source,) = re.findall(r"```python\n([^`]*AttackWrapper[^`]*)```", (DOCS / "extend.md").read_text("utf-8"))
    (tmp_path / "quieter.py").write_text(source)
    assert registry.load_named([str(tmp_path / "quieter.py")]) == ()
    rows = poisoned("quieter + gaussian-noise", HONEST, OWN)
    np.testing.assert_array_equal(rows, poisoned("gaussian-noise", HONEST, OWN).astype(np.float32) / 2)
    (suite,) = re.findall(r"```toml\n([^`]*sacrificial[^`]*)```", (DOCS / "suites.md").read_text("utf-8"))
    cells = plan(parse({**SUITE, **tomllib.loads(suite)}, "own", "own.toml"))
    assert [cell.labels["attack"] for cell in cells] == ["none", "on-off + label-flipping", "sneaky"]


def test_an_inner_attack_that_needs_the_defense_needs_it_beside_a_matrix_too():
    with pytest.raises(ParameterError, match="must know the defense"):
        fflbench.poison("norm-matched + optimal-inner-product", HONEST, attackers=2)


def test_a_wrappers_own_hooks_are_called(own_registry):
    called = []

    @attack("own-data", title="Own data", knows=["own data"])
    class OwnData(AttackWrapper):
        """Notes that it was asked for data."""

        def poison_data(self, examples, task, round, rng):
            called.append(round)
            return super().poison_data(examples, task, round, rng)

    federation("own-data + gaussian-noise", share=0.2).run_round()
    assert called == [0, 0]
    assert create("own-data").overrides("poison_data")
    assert not create("own-data").overrides("train")
    assert not create("on-off").overrides("poison_data")

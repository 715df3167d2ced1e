import numpy as np
import pytest

from fflbench import registration, registry
from fflbench.data import Examples
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.registration import attack
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.played import finished


def create(kind, name, **parameters):
    return registry.get(kind, name).create(**parameters)


def cell(attacking, task="digits-mlp", **fields):
    return Federation(create(Kind.TASK, task, **fields), attacking, chain.defense("fedavg"), 0)


def change(attacking, **fields):
    """What an attack changes: rows of attackers and of the honest, before and after."""
    it = cell(attacking, **fields)
    selected = it.select()
    after = it.train(selected)
    before = after.copy()
    it.poison(selected, after)
    hostile = np.isin(selected, it.attackers)
    np.testing.assert_array_equal(after[~hostile], before[~hostile])
    return before[hostile], after[hostile]


def test_gaussian_noise_adds_noise_of_its_deviation_to_parameters():
    before, after = change(create(Kind.ATTACK, "gaussian-noise"))
    noise = after - before
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 0.5) < 0.02
    assert np.abs(np.corrcoef(noise)[~np.eye(len(noise), dtype=bool)]).max() < 0.1
    before, after = change(create(Kind.ATTACK, "gaussian-noise", sigma=2.0))
    assert abs((after - before).std() - 2) < 0.1


@pytest.mark.parametrize(("name", "sigma"), [("adult-mlp", 0.5), ("cifar10-vgg16", 0.2), ("imdb-bilstm", 0.2)])
def test_the_large_models_get_the_papers_smaller_noise_unless_a_suite_sets_it(name, sigma, tmp_path):
    (tmp_path / "own.toml").write_text(
        f'''
tasks = ["{name}"]
attacks = ["gaussian-noise", "louder"]
defenses = ["fedavg"]
seeds = [0]
[attack.louder]
use = "gaussian-noise"
sigma = 3.0
'''
    )
    cells = plan(read(str(tmp_path / "own.toml")))
    assert {cell.labels["attack"]: cell.configuration["attack"]["parameters"]["sigma"] for cell in cells} == {
        "gaussian-noise": sigma,
        "louder": 3.0,
    }


def test_the_control_is_as_long_as_the_honest_update_and_points_elsewhere():
    before, after = change(create(Kind.ATTACK, "noise-control"))
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), rtol=1e-4)
    cosines = (before * after).sum(1) / np.linalg.norm(before, axis=1) ** 2
    assert np.abs(cosines).max() < 0.1


@pytest.mark.parametrize("name", ["gaussian-noise", "noise-control", "non-finite"])
def test_poisoned_parameters_leave_running_statistics_alone(name, own_registry):
    from torch import nn

    from fflbench.tasks import Task

    @registration.task("normed", title="Normed")
    class Normed(Task):
        """Digits with a batch normalisation."""

        classes = tuple("0123456789")

        def data(self):
            return create(Kind.TASK, "digits-mlp").data()

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))

    before, after = change(create(Kind.ATTACK, name), task="normed")
    np.testing.assert_array_equal(before[:, -128:], after[:, -128:])
    assert (before[:, :-128] != after[:, :-128]).mean() > 0.99


def trained(it):
    """Return a federation after the local training of a round in which everybody is selected."""
    it.train(np.arange(it.task.participants))
    return it


def own_examples(it):
    """Return which training examples attackers hold."""
    held = it.participants.indices
    return np.isin(np.arange(sum(map(len, held))), np.concatenate([held[who] for who in it.attackers]))


FLIPPED = {"source": 7, "target": 1}


def test_label_flipping_turns_every_source_label_of_attackers_and_no_other():
    it = trained(cell(create(Kind.ATTACK, "label-flipping", **FLIPPED)))
    before, after = it.task.data().train.y, it.participants.data.y.numpy()
    mine = own_examples(it)
    assert (after[mine & (before == 7)] == 1).all()
    np.testing.assert_array_equal(after[~mine | (before != 7)], before[~mine | (before != 7)])
    assert (mine & (before == 7)).sum() > 10
    assert len(it.attackers) == 4


def test_label_flipping_does_what_it_is_for():
    """With half of all participants flipping, FedAvg mistakes sevens for ones."""
    quiet, loud = (
        finished(cell(create(Kind.ATTACK, "label-flipping", share=share, **FLIPPED), rounds=15)).metrics
        for share in (0.0, 0.6)
    )
    assert quiet["attack_success_rate"] < 0.05
    assert loud["attack_success_rate"] > 0.5


def test_data_of_the_original_is_never_changed():
    task = create(Kind.TASK, "digits-mlp")
    before = task.data().train.y.copy()
    trained(cell(create(Kind.ATTACK, "label-flipping")))
    np.testing.assert_array_equal(task.data().train.y, before)


@pytest.fixture
def trigger(own_registry):
    @attack("trigger", title="Trigger", knows=["own data"])
    class Trigger(Attack):
        """Puts a white corner on its images."""

        def poison_data(self, examples, task, round, rng):
            x = examples.x.copy()
            x[:, :, :2, :2] = 1
            return Examples(x, np.full_like(examples.y, 1))

    return Trigger()


def test_an_attack_may_change_inputs_too(trigger):
    it = trained(cell(trigger))
    x, data, mine = it.participants.data.x.numpy(), it.task.data().train.x, own_examples(it)
    assert (x[mine][:, :, :2, :2] == 1).all()
    np.testing.assert_array_equal(x[~mine], data[~mine])
    assert not np.shares_memory(x, data)


def declared(knows):
    @attack(f"spy-{len(knows)}", title="Spy", knows=knows)
    class Spy(Attack):
        """Tells what it is shown."""

        def poison_updates(self, known):
            self.seen = [*getattr(self, "seen", []), len(known.updates)]
            self.honest = known.honest
            self.simulated = known.simulate(known.updates)
            return known.updates

    return Spy()


def test_an_attack_is_shown_what_it_declares_and_nothing_else(own_registry):
    for knows in (["own data"], ["own data", "honest updates"]):
        with pytest.raises(PermissionError, match="does not declare that it knows"):
            cell(declared(knows)).run_round()
    spy = declared(["own data", "honest updates", "defense"])
    it = cell(spy)
    it.run_round()
    assert set(spy.seen) == {1}
    assert len(spy.honest) == 10 - len(spy.seen)
    assert spy.simulated.shape == it.weights.shape
    together = declared(["own data", "honest updates", "defense", "attackers' updates"])
    cell(together).run_round()
    assert together.seen == [len(spy.seen)]


def test_an_attack_that_returns_nothing_is_told(own_registry):
    from fflbench.errors import ParameterError

    @attack("forgetful", title="Forgetful", knows=[])
    class Forgetful(Attack):
        """Forgets to return."""

        def poison_updates(self, known):
            known.updates[:] = 0

    with pytest.raises(ParameterError, match="must return a matrix of the shape"):
        cell(Forgetful()).run_round()


def test_an_attack_that_changes_its_examples_in_place_is_stopped(own_registry):
    @attack("in-place", title="In place", knows=["own data"])
    class InPlace(Attack):
        """Writes into what it was shown."""

        def poison_data(self, examples, task, round, rng):
            examples.x[:] = 1
            return examples

    with pytest.raises(ValueError, match="read-only"):
        cell(InPlace()).run_round()


def test_what_an_attack_declares_is_not_inherited(own_registry):
    @attack("knowing", title="Knowing", knows=["honest updates"])
    class Knowing(Attack):
        """Knows a lot."""

    @attack("unknowing", title="Unknowing", knows=[])
    class Unknowing(Knowing):
        """Knows nothing."""

    assert Unknowing.knows == ()
    assert Knowing.knows == ("honest updates",)


def test_data_is_poisoned_from_a_stream_of_each_attackers_own(own_registry):
    @attack("random-labels", title="Random labels", knows=["own data"])
    class RandomLabels(Attack):
        """Draws its labels."""

        def poison_data(self, examples, task, round, rng):
            return Examples(examples.x, rng.integers(10, size=len(examples.y)))

    it = trained(cell(RandomLabels()))
    labels = [it.participants.data.y[it.participants.indices[who]].tolist()[:20] for who in it.attackers]
    assert len({tuple(each) for each in labels}) == len(labels)

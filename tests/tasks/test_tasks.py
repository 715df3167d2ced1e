import numpy as np
import pytest
import torch

from fflbench import plugin, registry
from fflbench.plugin import Kind, ParameterError, Task, new_model

SMALL = ("digits-mlp", "digits-cnn")


def task(name, **fields):
    return registry.get(Kind.TASK, name).create(**fields)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("digits-mlp", 2_410),
        ("digits-cnn", 3_358),
        ("adult-mlp", 4_929),
        ("mnist-cnn", 21_840),
        # 32 filters of 5 x 5 x 3, 64 of 3 x 3 x 32, and 1,024 inputs of ten classes, with biases.
        ("cifar10-cnn", 32 * 76 + 64 * 289 + 10 * 1025),
        ("cifar10-vgg16", 14_728_266),
    ],
)
def test_parameter_counts_are_those_that_are_documented(name, count):
    assert task(name).parameter_count() == count


def bilstm_size(vocabulary):
    from fflbench.tasks._bilstm import BiLSTM

    with torch.device("meta"):
        return sum(parameter.numel() for parameter in BiLSTM(vocabulary, padding=0).parameters())


def test_imdb_has_the_size_that_the_paper_prints_with_a_vocabulary_of_124_253_words(real):
    # 50.6453 MB, of four bytes per parameter.
    assert round(4 * bilstm_size(124_253) / 1e6, 4) == 50.6453
    assert {round(4 * bilstm_size(words) / 1e6, 4) for words in (124_252, 124_254)}.isdisjoint({50.6453})
    real("imdb")
    assert task("imdb-bilstm").parameter_count() == bilstm_size(119_621) == 12_198_133


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("digits-mlp", (20, 10, 30, 2, 16, "sgd", 0.1, 0.9, 7, 1)),
        ("digits-cnn", (20, 10, 30, 3, 8, "sgd", 0.05, 0.9, 7, 1)),
        ("adult-mlp", (20, 10, 100, 1, 64, "adam", 0.001, 0.9, 1, 0)),
        ("mnist-cnn", (100, 50, 200, 3, 64, "sgd", 0.001, 0.9, 7, 1)),
        ("cifar10-cnn", (20, 20, 30, 1, 32, "sgd", 0.03, 0.9, 3, 5)),
        ("cifar10-vgg16", (20, 10, 100, 3, 32, "sgd", 0.01, 0.9, 3, 5)),
        ("imdb-bilstm", (20, 10, 100, 1, 32, "adam", 0.001, 0.9, 1, 0)),
    ],
)
def test_settings_are_those_that_are_documented(name, settings):
    it = task(name)
    flipped = it.attack_defaults["label-flipping"]
    assert settings == (
        *(it.participants, it.per_round, it.rounds, it.local_epochs, it.batch_size),
        *(it.optimizer, it.learning_rate, it.momentum, flipped["source"], flipped["target"]),
    )


@pytest.mark.parametrize(
    ("name", "layers"),
    [
        ("digits-mlp", "Flatten Linear ReLU Linear"),
        ("digits-cnn", "Conv2d Sigmoid Conv2d Sigmoid Flatten Linear"),
        ("adult-mlp", "Linear ReLU Linear ReLU Linear"),
        ("mnist-cnn", "Conv2d MaxPool2d ReLU Conv2d MaxPool2d ReLU Flatten Linear ReLU Linear"),
        ("cifar10-cnn", "Conv2d MaxPool2d ReLU Conv2d MaxPool2d ReLU Flatten Linear"),
        (
            "cifar10-vgg16",
            " ".join("Conv2d BatchNorm2d ReLU " * block + "MaxPool2d" for block in (2, 2, 3, 3, 3)) + " Flatten Linear",
        ),
    ],
)
def test_models_are_built_of_the_layers_they_are_described_with(name, layers):
    assert [type(layer).__name__ for layer in task(name).model()] == layers.split()


def test_the_seed_alone_decides_the_initial_weights_of_vgg16():
    def weights(seed, state):
        torch.manual_seed(state)
        return torch.cat([tensor.flatten() for tensor in new_model(task("cifar10-vgg16"), seed).parameters()])

    first = weights(seed=0, state=1)
    assert torch.equal(first, weights(seed=0, state=2))
    assert not torch.equal(first, weights(seed=1, state=1))


def test_vgg16_has_by_default_the_initial_weights_of_torchvisions_layers():
    from torchvision.models.vgg import cfgs, make_layers

    class Published(Task):
        classes = ("cat", "dog")

        def model(self):
            layers = make_layers(cfgs["D"], batch_norm=True)
            return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(512, 10))

    models = [new_model(it, seed=3).state_dict() for it in (Published(), task("cifar10-vgg16"))]
    assert list(models[0]) == list(models[1])
    assert all(torch.equal(value, models[1][name]) for name, value in models[0].items())


@pytest.mark.parametrize(
    ("fields", "parameters", "last"),
    [
        ({}, 14_728_266, 5_130),
        # About 250K in the last layer, as in the paper's appendix on costs.
        ({"head": "7x7"}, 14_974_026, 250_890),
        ({"width": 16}, 924_186, 1_290),
    ],
)
def test_vgg16_may_be_narrower_or_have_the_larger_last_layer(fields, parameters, last):
    it = task("cifar10-vgg16", **fields)
    columns = it.columns()
    assert (it.parameter_count(), columns.last_layer.stop - columns.last_layer.start) == (parameters, last)


def test_the_larger_last_layer_sees_49_copies_of_a_position():
    model = new_model(task("cifar10-vgg16", width=2, head="7x7"), seed=0).eval()
    before = model[:-1](torch.randn(3, 3, 32, 32))
    assert before.shape == (3, 16 * 49)
    assert torch.equal(before.view(3, 16, 49), before.view(3, 16, 49)[..., :1].expand(-1, -1, 49))


def test_participants_may_hold_the_test_images_and_are_then_tested_on_the_others(monkeypatch):
    data = task("digits-mlp").data()
    monkeypatch.setattr("fflbench.tasks.task.load", lambda _: data)
    assert task("cifar10-convnet").data() is data
    swapped = task("cifar10-convnet", participants_hold="test").data()
    assert (swapped.train, swapped.test) == (data.test, data.train)


def test_binary_tasks_decide_at_half_and_have_two_classes():
    for name in ("adult-mlp", "imdb-bilstm"):
        it = task(name)
        assert (it.loss, it.decision_threshold, len(it.classes)) == ("binary-cross-entropy", 0.5, 2)


def test_every_field_can_be_overridden_and_the_others_stay():
    it = task("adult-mlp", rounds=3, partition="dirichlet", dirichlet_alpha=0.1)
    assert (it.rounds, it.partition, it.dirichlet_alpha, it.batch_size) == (3, "dirichlet", 0.1, 64)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"round": 3}, r'no parameter "round"; did you mean "rounds"\?'),
        ({"rounds": 0}, "rounds = 0 should be greater than or equal to 1"),
        ({"optimizer": "rmsprop"}, "should be 'sgd' or 'adam'"),
        ({"per_round": 21}, "per_round = 21 is more than participants = 20"),
        ({"loss": "binary-cross-entropy"}, "is for two classes, not 10"),
        ({"examples": 5, "partition": "dirichlet"}, 'examples = … needs partition = "dirichlet-equal"'),
    ],
)
def test_what_makes_no_sense_is_refused(fields, reason):
    with pytest.raises(ParameterError, match=f'task "digits-mlp".*{reason}'):
        task("digits-mlp", **fields)


@pytest.mark.parametrize("name", SMALL)
def test_models_take_what_the_data_gives(name):
    it = task(name)
    x = torch.from_numpy(it.data().train.x[:5])
    assert it.model()(x).shape == (5, 10)


@pytest.mark.parametrize("name", ["adult-mlp", "mnist-cnn", "cifar10-cnn", "cifar10-vgg16", "imdb-bilstm"])
def test_models_take_what_the_real_data_gives(name, real):
    it = task(name)
    real(it.data_set.name)
    data = it.data()
    outputs = 1 if it.loss == "binary-cross-entropy" else len(it.classes)
    x = torch.from_numpy(np.array(data.train.x[:5]))
    assert it.model().eval()(x).shape == (5, outputs)
    assert data.train.y.max() == len(it.classes) - 1


def test_inversion_papers_weights_are_uniform():
    weights = torch.cat([parameter.flatten() for parameter in task("digits-cnn").model().parameters()])
    assert weights.abs().max() <= 0.5
    assert abs(weights.std().item() - 1 / 12**0.5) < 0.01


def test_padding_does_not_change_what_the_lstm_pools():
    from fflbench.tasks._bilstm import BiLSTM

    torch.manual_seed(0)
    model = BiLSTM(20, padding=0)
    states, _ = model.lstm(model.embedding(torch.tensor([[0, 0, 5, 6]])))
    seen = states[:, 2:]
    expected = model.output(torch.cat([seen.mean(1), seen.amax(1)], 1))
    torch.testing.assert_close(model(torch.tensor([[0, 0, 5, 6]])), expected)
    assert model(torch.zeros(1, 4, dtype=torch.long)).isfinite().all()


def test_the_division_follows_the_seed_alone():
    it = task("digits-mlp")
    y = it.data().train.y
    same = task("digits-mlp", rounds=3, learning_rate=0.5).divide(y, seed=1)
    assert all((a == b).all() for a, b in zip(it.divide(y, seed=1), same, strict=True))
    assert any(
        len(a) != len(b) or (a != b).any() for a, b in zip(it.divide(y, seed=1), it.divide(y, seed=2), strict=True)
    )


def test_the_division_is_told_alpha_and_shards():
    y = np.arange(2000) % 10
    largest = [
        np.mean([np.bincount(y[part]).max() / len(part) for part in task("digits-mlp", **fields).divide(y, seed=0)])
        for fields in (
            {"partition": "dirichlet", "dirichlet_alpha": 1e5},
            {"partition": "dirichlet", "dirichlet_alpha": 0.01},
            {"partition": "shards", "shards": 1},
            {"partition": "shards", "shards": 10},
        )
    ]
    assert largest[0] < 0.2 < 0.8 < largest[1]
    assert largest[2] == 1
    assert largest[3] < 0.5


def test_a_task_without_classes_or_model_says_so_when_registered(own_registry):
    with pytest.raises(TypeError, match="must name its classes"):

        class Nameless(Task):
            pass

    with pytest.raises(TypeError, match='task "modelless" must define model'):

        @plugin.task("modelless", title="Modelless")
        class Modelless(Task):
            classes = ("a", "b")


@pytest.mark.parametrize("name", SMALL)
def test_the_recipe_learns_digits(name):
    """A plain federated average as one would write it in a notebook; the tasks promise more than 93%."""
    it = task(name)
    data = it.data()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
    parts, model = it.divide(data.train.y, seed=0), it.model()
    for _ in range(it.rounds):
        start = {name: value.clone() for name, value in model.state_dict().items()}
        total = {name: torch.zeros_like(value) for name, value in start.items()}
        for participant in rng.choice(it.participants, it.per_round, replace=False):
            model.load_state_dict(start)
            optimizer = torch.optim.SGD(model.parameters(), it.learning_rate, momentum=it.momentum)
            for _ in range(it.local_epochs):
                for batch in torch.from_numpy(rng.permutation(parts[participant])).split(it.batch_size):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
                    optimizer.step()
            for name, value in model.state_dict().items():
                total[name] += value / it.per_round
        model.load_state_dict(total)
    with torch.no_grad():
        correct = model(torch.from_numpy(data.test.x)).argmax(1) == torch.from_numpy(data.test.y)
    assert correct.float().mean() > 0.93


def test_shards_are_equal_parts_of_the_examples_of_each():
    with pytest.raises(ParameterError, match="examples = 5 must be a multiple of shards = 2"):
        task("digits-mlp", partition="shards", examples=5)
    it = task("digits-mlp", partition="shards", examples=6)
    assert {len(part) for part in it.divide(it.data().train.y, seed=0)} == {6}

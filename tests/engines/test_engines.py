import gc
import weakref
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from fflbench import registration, registry
from fflbench.engines.compiled import Compiled
from fflbench.engines.engine import LocalData
from fflbench.engines.flat_model import FlatModel
from fflbench.engines.loop import Loop
from fflbench.engines.stacked import Stacked
from fflbench.errors import ParameterError
from fflbench.registry import Kind
from fflbench.tasks import Task

ENGINES = (Loop, Stacked, Compiled)


def task(name, **fields):
    return registry.get(Kind.TASK, name).create(**fields)


def prepared(it, examples=None, seed=0):
    """LocalData and starting weights; `examples` cuts everybody's share down to so many at most."""
    data = it.data()
    held = [indices[:examples] for indices in it.divide(data.train.y, seed)]
    torch.manual_seed(seed)
    model = it.model()
    start = FlatModel(model, torch.device("cpu")).flat.numpy().copy()
    return model, start, LocalData(torch.from_numpy(data.train.x), torch.from_numpy(data.train.y), held, seed, it)


def run(engine, name, examples=None, participants=(0, 3, 4, 9), round=2, **fields):
    it = task(name, **fields)
    model, start, holdings = prepared(it, examples)
    return engine(FlatModel(model, torch.device("cpu")), holdings).train(start, np.array(participants), round)


def obvious(name, examples=None, participants=(0, 3, 4, 9), round=2, **fields):
    """As one would write it without thinking of speed: torch's own optimiser on the model's own parameters."""
    it = task(name, **fields)
    model, start, holdings = prepared(it, examples)
    flat = FlatModel(model, torch.device("cpu"))
    rows = []
    for participant in participants:
        flat.load(start)
        model.train()
        make = {"sgd": lambda p: torch.optim.SGD(p, it.learning_rate, momentum=it.momentum)}
        make["adam"] = lambda p: torch.optim.Adam(p, it.learning_rate)
        optimizer = make[it.optimizer](model.parameters())
        start_parameters = [parameter.detach().clone() for parameter in model.parameters()]
        steps = 0
        for epoch in holdings.example_order(participant, round):
            for begin in range(0, len(epoch), it.batch_size):
                if steps == it.local_steps:
                    break
                steps += 1
                batch = epoch[begin : begin + it.batch_size]
                x, y = holdings.x[batch], holdings.y[batch]
                optimizer.zero_grad()
                if it.loss == "cross-entropy":
                    loss = F.cross_entropy(model(x), y)
                else:
                    loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
                # FedProx: half of mu times the squared distance to the global model.
                distances = [
                    ((now - then) ** 2).sum() for now, then in zip(model.parameters(), start_parameters, strict=True)
                ]
                (loss + it.proximal / 2 * sum(distances)).backward()
                optimizer.step()
        assert it.local_steps is None or steps == it.local_steps
        rows.append(flat.flat.numpy() - start)
    return np.stack(rows)


DIGITS = [
    ("digits-mlp", {}),
    ("digits-mlp", {"optimizer": "adam", "learning_rate": 0.01}),
    ("digits-mlp", {"partition": "dirichlet", "dirichlet_alpha": 0.1}),
    ("digits-mlp", {"partition": "dirichlet", "dirichlet_alpha": 0.1, "optimizer": "adam"}),
    ("digits-mlp", {"batch_size": 1000, "momentum": 0.0}),
    ("digits-cnn", {}),
    # An epoch of batches of 16 has 5 steps here, or from 1 to 20 where the division is uneven.
    *(("digits-mlp", {"local_steps": steps}) for steps in (1, 4, 5, 6, 23)),
    *(("digits-mlp", {"local_steps": steps, "partition": "dirichlet", "dirichlet_alpha": 0.1}) for steps in (2, 9)),
    ("digits-mlp", {"local_steps": 7, "optimizer": "adam", "learning_rate": 0.01}),
    ("digits-mlp", {"local_steps": 3, "batch_size": 1000}),
    *(("digits-mlp", {"proximal": mu}) for mu in (0.01, 1.0)),
    ("digits-mlp", {"proximal": 0.5, "partition": "dirichlet", "dirichlet_alpha": 0.1}),
    ("digits-mlp", {"proximal": 0.5, "optimizer": "adam", "learning_rate": 0.01, "local_steps": 8}),
    ("digits-cnn", {"proximal": 0.1, "local_steps": 12}),
]


@pytest.mark.parametrize(("name", "fields"), DIGITS)
@pytest.mark.parametrize("engine", ENGINES)
def test_engines_do_what_an_obvious_loop_does(engine, name, fields):
    if engine is Compiled and name == "digits-cnn":
        pytest.skip("has layers that the compiled engine does not have")
    # Rounding grows with the number of steps; a wrong last batch, optimiser or order is orders of magnitude off.
    np.testing.assert_allclose(run(engine, name, **fields), obvious(name, **fields), rtol=1e-3, atol=2e-4)


@settings(max_examples=15)
@given(st.integers(1, 30), st.integers(1, 40), st.floats(0, 1), st.integers(0, 5))
def test_engines_agree_whatever_the_steps_batches_and_pull(steps, batch_size, proximal, seed):
    fields = {"local_steps": steps, "batch_size": batch_size, "proximal": proximal, "learning_rate": 0.01}
    fields |= {"partition": "dirichlet", "dirichlet_alpha": 0.2}
    loop, *others = (run(engine, "digits-mlp", round=seed, **fields) for engine in ENGINES)
    for other in others:
        np.testing.assert_allclose(loop, other, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_pull_towards_the_global_model_shortens_updates(engine):
    lengths = [np.linalg.norm(run(engine, "digits-mlp", proximal=mu)) for mu in (0.0, 1.0, 4.0)]
    assert lengths[0] > 1.1 * lengths[1] > 1.1**2 * lengths[2] > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_as_many_steps_as_the_epochs_have_are_those_epochs(engine):
    it = task("digits-mlp", local_epochs=2)
    sizes = {len(own) for own in it.divide(it.data().train.y, 0)}
    steps = {2 * -(-size // it.batch_size) for size in sizes}
    assert len(steps) == 1
    by_steps = run(engine, "digits-mlp", local_steps=steps.pop())
    np.testing.assert_array_equal(by_steps, run(engine, "digits-mlp", local_epochs=2))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["adult-mlp", "mnist-cnn", "cifar10-cnn"])
def test_engines_do_so_on_real_data(real, engine, name):
    real(task(name).data_set.name)
    found, wanted = run(engine, name, examples=150), obvious(name, examples=150)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["cifar10-vgg16", "imdb-bilstm"])
def test_the_large_models_train_in_the_loop(real, name):
    real(task(name).data_set.name)
    fields = {"local_epochs": 1, "batch_size": 12}
    found = run(Loop, name, examples=12, participants=(1,), **fields)
    wanted = obvious(name, examples=12, participants=(1,), **fields)
    # Normalising over twelve values amplifies rounding, and Adam's first step is a sign: so the bulk is compared.
    assert np.abs(found - wanted).mean() < 0.05 * np.abs(wanted).mean()
    assert found.any()


def test_running_statistics_are_part_of_the_update(own_registry):
    @registration.task("normed", title="Normed")
    class Normed(Task):
        """Digits with a batch normalisation."""

        classes = tuple("0123456789")

        def data(self):
            return task("digits-mlp").data()

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))

    found = run(Loop, "normed")
    np.testing.assert_allclose(found, obvious("normed"), rtol=1e-3, atol=1e-5)
    assert np.abs(found[:, -128:]).max() > 0.01


@pytest.mark.parametrize("engine", ENGINES)
def test_an_update_depends_on_nobody_else(engine):
    together = run(engine, "digits-mlp", participants=(2, 5, 7))
    alone = run(engine, "digits-mlp", participants=(5,))
    np.testing.assert_allclose(together[1], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_follow_the_order_they_were_asked_in(engine):
    fields = {"partition": "dirichlet", "dirichlet_alpha": 0.1}
    forwards = run(engine, "digits-mlp", participants=(1, 2, 3, 4), **fields)
    backwards = run(engine, "digits-mlp", participants=(4, 3, 2, 1), **fields)
    np.testing.assert_allclose(forwards[::-1], backwards, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_call_gives_the_same_bits(engine):
    assert run(engine, "digits-mlp").tobytes() == run(engine, "digits-mlp").tobytes()


def test_batches_follow_seed_participant_and_round_and_every_example_comes_once_an_epoch():
    it = task("digits-mlp")
    _, _, holdings = prepared(it)
    order = holdings.example_order(3, 1)
    assert order.shape == (2, len(holdings.indices[3]))
    for epoch in order:
        assert sorted(epoch) == sorted(holdings.indices[3])
    assert order.tolist() == holdings.example_order(3, 1).tolist()
    assert order.tolist() != holdings.example_order(3, 2).tolist()
    assert order[0].tolist() != order[1].tolist()


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(64),
        nn.Dropout(),
        nn.Conv2d(4, 4, 3, groups=2),
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.LeakyReLU(inplace=True),
        nn.Flatten(2),
    ],
)
def test_a_model_that_cannot_be_stacked_is_told_to_loop(layer):
    it = task("digits-mlp")
    _, _, holdings = prepared(it)
    model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 64), layer), torch.device("cpu"))
    with pytest.raises(ParameterError, match=f'cannot train {type(layer).__name__}; use engine = "loop"'):
        Stacked(model, holdings)


def test_named_layers_are_stacked_and_a_forward_of_its_own_is_not():
    class Odd(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 2

    layers = {"in": nn.Flatten(), "out": nn.Linear(64, 10)}
    _, _, holdings = prepared(task("digits-mlp"))
    model = FlatModel(nn.Sequential(OrderedDict(layers)), torch.device("cpu"))
    start = model.flat.numpy().copy()
    rows = [engine(model, holdings).train(start, np.array([1, 2]), 0) for engine in (Loop, Stacked)]
    np.testing.assert_allclose(*rows, rtol=1e-3, atol=1e-4)
    with pytest.raises(ParameterError, match='cannot train Odd; use engine = "loop"'):
        Stacked(FlatModel(Odd(*layers.values()), torch.device("cpu")), holdings)


def test_a_layer_without_bias_or_a_lone_layer_is_stacked_too():
    for model in (nn.Linear(64, 10, bias=False), nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))):
        it = task("digits-mlp")
        _, _, holdings = prepared(it)
        holdings.x = holdings.x.flatten(1)
        start = FlatModel(model, torch.device("cpu")).flat.numpy().copy()
        rows = [
            engine(FlatModel(model, torch.device("cpu")), holdings).train(start, np.array([1, 2]), 0)
            for engine in (Loop, Stacked)
        ]
        np.testing.assert_allclose(*rows, rtol=1e-3, atol=1e-4)


def test_a_layer_may_come_twice_unless_it_learns():
    _, _, holdings = prepared(task("digits-mlp"))
    relu, linear = nn.ReLU(inplace=True), nn.Linear(64, 64)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), relu, nn.Linear(9, 9), relu, nn.Linear(9, 10))
    start = FlatModel(model, torch.device("cpu")).flat.numpy().copy()
    rows = [
        engine(FlatModel(model, torch.device("cpu")), holdings).train(start, np.array([1, 2]), 0)
        for engine in (Loop, Stacked)
    ]
    np.testing.assert_allclose(*rows, rtol=1e-3, atol=1e-4)
    with pytest.raises(ParameterError, match='cannot train Linear; use engine = "loop"'):
        Stacked(FlatModel(nn.Sequential(nn.Flatten(), linear, linear), torch.device("cpu")), holdings)


def test_a_linear_layer_on_more_than_one_axis_is_told_to_loop():
    _, _, holdings = prepared(task("digits-mlp"))
    model = FlatModel(nn.Sequential(nn.Linear(8, 4), nn.Flatten(), nn.Linear(32, 10)), torch.device("cpu"))
    with pytest.raises(ParameterError, match='on flat inputs only; use engine = "loop"'):
        Stacked(model, holdings).train(model.flat.numpy().copy(), np.array([1]), 0)


def frozen_model():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    model[1].requires_grad_(False)
    return model


@pytest.mark.parametrize("fields", [{}, {"optimizer": "adam"}, {"proximal": 0.5}])
def test_frozen_parameters_stay_and_the_others_train_as_if_they_were_all(fields):
    it = task("digits-mlp", **fields)
    data = it.data()
    held = it.divide(data.train.y, 0)
    local = LocalData(torch.from_numpy(data.train.x), torch.from_numpy(data.train.y), held, 0, it)
    torch.manual_seed(0)
    flat = FlatModel(frozen_model(), torch.device("cpu"))
    start = flat.flat.numpy().copy()
    update = Loop(flat, local).train(start, np.array([3]), 1)[0]
    flat.load(start)
    # Trained alone on the outputs of the frozen layer, the head ends in the same place.
    with torch.no_grad():
        local.x = flat.model[:3](local.x)
    head = FlatModel(flat.model[3], torch.device("cpu"))
    alone = Loop(head, local).train(head.flat.numpy().copy(), np.array([3]), 1)[0]
    assert not update[: len(update) - len(alone)].any()
    np.testing.assert_allclose(update[-len(alone) :], alone, atol=1e-5)


def test_the_stacked_engine_refuses_frozen_parameters():
    with pytest.raises(ParameterError, match='frozen parameters; use engine = "loop"'):
        Stacked(FlatModel(frozen_model(), torch.device("cpu")), None)


def test_a_model_without_anything_to_train_is_refused():
    with pytest.raises(ParameterError, match="all parameters of the model are frozen"):
        Loop(FlatModel(frozen_model().requires_grad_(False), torch.device("cpu")), None)


@pytest.mark.parametrize("count", [0, 1, 16, 17, 40])
def test_the_compiled_engine_evaluates_as_torch_does(count):
    _, _, holdings = prepared(task("digits-mlp"))
    network = nn.Sequential(nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 10))
    model, x = FlatModel(network, torch.device("cpu")), holdings.x[:count].view(count, 1, 8, 8)
    with torch.inference_mode():
        wanted = model.forward(x)
        Compiled(model, holdings)
        torch.testing.assert_close(model.forward(x), wanted, rtol=1e-4, atol=1e-5)
        model.load(2 * model.flat.numpy())
        assert count == 0 or not torch.allclose(model.forward(x), wanted, atol=1e-3)


@pytest.mark.parametrize("kind", ENGINES)
def test_data_are_freed_with_their_engine_and_not_at_some_later_time(kind):
    _, _, holdings = prepared(task("digits-mlp"))
    model = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), torch.device("cpu"))
    engine, freed = kind(model, holdings), weakref.ref(holdings)
    gc.disable()
    try:
        del engine, holdings
        assert freed() is None
        network = weakref.ref(model)
        del model
        assert network() is None
    finally:
        gc.enable()

"""Each attack where the right answer is known, and where it must do no better than chance."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fflbench import registry
from fflbench.engines.flat_model import FlatModel
from fflbench.errors import ParameterError
from fflbench.federation.rounds import new_model
from fflbench.privacy import ObservedGradients
from fflbench.privacy.gradient_inversion import infer_labels
from fflbench.privacy.reconstruction_quality import compare_with_originals
from fflbench.privacy.victim_updates import (
    draw_victim_examples,
    gradients_from_updates,
    pretrain_global_model,
    train_victims,
    value_range,
)
from fflbench.registry import Kind


def observe_victims(task, victims=4, batch=1, steps=1, rate=0.1, seed=0, model=None):
    """Victims of a task, each alone: what a server sees of them without a defense, and what they hold."""
    it = registry.get(Kind.TASK, task).create()
    torch.manual_seed(seed)
    flat = FlatModel(model or it.model(), torch.device("cpu"))
    (held,) = draw_victim_examples(it, 1, victims, batch, seed)
    group = train_victims(it, flat, held, steps, rate)
    low, high = value_range(it.data().train.x)
    seen = ObservedGradients(
        model=flat.model,
        gradients=gradients_from_updates(flat, list(group.updates), steps, rate),
        count=batch,
        shape=group.x.shape[2:],
        classes=len(it.classes),
        loss=it.loss,
        low=torch.from_numpy(low),
        high=torch.from_numpy(high),
        generator=torch.Generator().manual_seed(seed),
    )
    return seen, group


def create_attack(name, **parameters):
    return registry.get(Kind.PRIVACY_ATTACK, name).create(**parameters)


def mean_psnr_by_victim(group, guess):
    return [
        np.mean(compare_with_originals(x, y, found, guessed).psnr)
        for x, y, found, guessed in zip(group.x, group.y, guess.x.numpy(), guess.y.numpy(), strict=True)
    ]


def test_a_change_of_the_model_becomes_the_gradient_again():
    seen, group = observe_victims("digits-cnn", victims=2)
    model = seen.model
    for place in range(2):
        x, y = torch.from_numpy(group.x[place]), torch.from_numpy(group.y[place])
        wanted = torch.autograd.grad(nn.functional.cross_entropy(model(x), y), list(model.parameters()))
        for found, exact in zip(seen.gradients, wanted, strict=True):
            torch.testing.assert_close(found[place], exact, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["dlg", "idlg"])
def test_single_digits_come_back_from_their_gradients(name):
    seen, group = observe_victims("digits-cnn", victims=5)
    guess = create_attack(name, steps=120).reconstruct(seen)
    assert np.median(mean_psnr_by_victim(group, guess)) > 40
    assert (guess.y.numpy() == group.y).mean() >= 4 / 5


@pytest.mark.parametrize(
    ("name", "task", "parameters"),
    [
        ("dlg", "digits-cnn", {"steps": 60}),
        ("idlg", "digits-cnn", {"steps": 60}),
        ("inverting-gradients", "digits-cnn", {"steps": 100}),
        ("analytic", "digits-mlp", {}),
    ],
)
def test_from_a_gradient_that_holds_nothing_nothing_comes_back(name, task, parameters):
    seen, group = observe_victims(task, victims=10)
    rng = torch.Generator().manual_seed(5)
    # As long as the real ones, entry by entry, but with the signs of a coin.
    blank = tuple(part.abs() * (torch.randint(0, 2, part.shape, generator=rng) * 2 - 1) for part in seen.gradients)
    found = mean_psnr_by_victim(group, create_attack(name, **parameters).reconstruct(replace(seen, gradients=blank)))
    data = registry.get(Kind.TASK, task).create().data().train
    floor = [
        np.mean(compare_with_originals(x, y, data.x[:1], data.y[:1]).psnr)
        for x, y in zip(group.x, group.y, strict=True)
    ]
    assert np.median(found) < np.median(floor) + 2


def test_inverting_gradients_finds_digits_roughly():
    seen, group = observe_victims("digits-cnn", victims=3)
    found = mean_psnr_by_victim(group, create_attack("inverting-gradients", steps=400).reconstruct(seen))
    assert np.median(found) > 20


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_labels_are_read_off_the_last_layer(batch):
    seen, group = observe_victims("digits-cnn", victims=20, batch=batch)
    found = np.sort(infer_labels(seen).numpy(), axis=1)
    shared = [len(set(a) & set(b)) / len(set(b)) for a, b in zip(found, group.y, strict=True)]
    assert np.mean(shared) >= (1 if batch == 1 else 0.95)


def test_a_class_that_lacks_something_to_zero_is_there_whatever_the_model_usually_says():
    seen, _ = observe_victims("digits-cnn", victims=2, batch=4)
    proof = torch.full((2, 10), 0.1)
    proof[0, [3, 7]] = torch.tensor([-0.3, -0.01])
    proof[1, 5] = -0.9
    found = infer_labels(replace(seen, gradients=(*seen.gradients[:-1], proof))).sort(1).values.tolist()
    assert found[0].count(3) >= 2
    assert 7 in found[0]
    assert found[1] == [5, 5, 5, 5]


def test_a_biased_linear_layer_gives_its_input_in_closed_form():
    seen, group = observe_victims("digits-mlp", victims=8, rate=1.0)
    guess = create_attack("analytic").reconstruct(seen)
    np.testing.assert_allclose(guess.x.numpy(), group.x, atol=1e-3)


def test_a_model_that_begins_otherwise_is_refused():
    seen, _ = observe_victims("digits-cnn", victims=1)
    with pytest.raises(ParameterError, match="begins with a biased linear layer"):
        create_attack("analytic").reconstruct(seen)


def test_scores_pair_reconstructions_with_originals():
    rng = np.random.default_rng(0)
    x = rng.random((3, 1, 4, 4)).astype(np.float32)
    y = np.array([0, 1, 2])
    found = compare_with_originals(x, y, x[[2, 0, 1]], y[[2, 0, 1]])
    np.testing.assert_array_equal(found.rebuilt, x)
    assert found.psnr == [150.0] * 3
    assert found.label_accuracy == 1
    assert compare_with_originals(x, y, x * 0, np.array([2, 2, 0])).label_accuracy == pytest.approx(2 / 3)
    darker = compare_with_originals(x, y, x - np.float32(0.1) * (x > 0.1), y)
    assert darker.mse == pytest.approx(0.01 * (x > 0.1).mean((1, 2, 3)), rel=1e-4)
    assert compare_with_originals(x, y, np.full_like(x, np.nan), y).mse == pytest.approx(
        (x**2).mean((1, 2, 3)), rel=1e-4
    )


def test_pretraining_takes_whole_epochs_whatever_participants_do_in_a_round():
    models = []
    for fields in ({}, {"local_steps": 1, "proximal": 5.0, "local_epochs": 7}):
        task = registry.get(Kind.TASK, "digits-mlp").create(**fields)
        flat = FlatModel(new_model(task, 0), torch.device("cpu"))
        pretrain_global_model(task, flat, draw_victim_examples(task, 2, 2, 1, 0), epochs=2, seed=0)
        models.append(flat.flat.clone())
    torch.testing.assert_close(*models, rtol=0, atol=0)

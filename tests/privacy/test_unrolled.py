"""Inversion of local training: what is simulated, what comes back from several steps, and what does not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fflbench.errors import ParameterError
from fflbench.plugin import ReconstructedExamples, TrainingProtocol
from fflbench.privacy.gradient_inversion import (
    gradient_matching_objective,
    infer_labels,
    one_hot_logits,
    relative_squared_distance,
)
from fflbench.privacy.unrolled_inversion import (
    mean_of_matched_epochs,
    order_invariant_distance,
    probabilities_during_training,
    simulated_gradient_function,
)
from tests.privacy.test_attacks import create_attack, mean_psnr_by_victim, observe_victims


def small_network(hidden=32):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.Sigmoid(), nn.Linear(hidden, 10))
    for weights in model.parameters():
        nn.init.uniform_(weights, -0.5, 0.5)
    return model


def train_by_torch(model, x, y, protocol, orders):
    """The mean gradient behind an update of torch's own SGD, where each epoch has an order."""
    start = [value.detach().clone() for value in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=protocol.rate, momentum=protocol.momentum)
    size = protocol.batch_size or len(x)
    for order in orders:
        for first in range(0, len(x), size):
            batch = order[first : first + size]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    summed = protocol.gradients_summed(len(x))
    found = tuple(
        (before - after.detach()) / (protocol.rate * summed)
        for before, after in zip(start, model.parameters(), strict=True)
    )
    with torch.no_grad():
        for value, before in zip(model.parameters(), start, strict=True):
            value.copy_(before)
    return found


def observe_training(protocol, victims=3, batch=4, seed=0, hidden=32):
    """Victims who trained by a protocol, in a random order in each epoch; with the labels known."""
    torch.manual_seed(seed)
    seen, group = observe_victims(
        "digits-mlp", victims=victims * protocol.participants, batch=batch, seed=seed, model=small_network(hidden)
    )
    x, y = torch.from_numpy(group.x), torch.from_numpy(group.y)
    rng = torch.Generator().manual_seed(seed)
    orders = [[torch.randperm(batch, generator=rng) for _ in range(protocol.epochs)] for _ in x]
    each = [train_by_torch(seen.model, a, b, protocol, order) for a, b, order in zip(x, y, orders, strict=True)]
    gradients = tuple(torch.stack(of).unflatten(0, (victims, -1)).mean(1) for of in zip(*each, strict=True))
    count = batch * protocol.participants
    group = replace(group, x=group.x.reshape(victims, count, *group.x.shape[2:]), y=group.y.reshape(victims, count))
    return replace(seen, gradients=gradients, count=count, local=protocol, y=torch.from_numpy(group.y)), group


@given(
    seed=st.integers(0, 2**16),
    examples=st.integers(1, 5),
    size=st.one_of(st.none(), st.integers(1, 5)),
    epochs=st.integers(1, 3),
    momentum=st.sampled_from([0.0, 0.9]),
    participants=st.integers(1, 2),
)
@settings(max_examples=8, deadline=None)
def test_the_simulation_is_what_torch_trains(seed, examples, size, epochs, momentum, participants):
    protocol = TrainingProtocol(0.3, epochs, size, momentum, participants=participants)
    torch.manual_seed(seed)
    model, rng = small_network(8).double(), torch.Generator().manual_seed(seed)
    count = examples * participants
    x = torch.rand(count, 1, 8, 8, generator=rng, dtype=torch.float64)
    y = torch.randint(10, (count,), generator=rng)
    parts = [slice(first, first + examples) for first in range(0, count, examples)]
    trained = [train_by_torch(model, x[part], y[part], protocol, [torch.arange(examples)] * epochs) for part in parts]
    seen, _ = observe_victims("digits-mlp", victims=1)
    simulate = simulated_gradient_function(replace(seen, model=model, count=count, local=protocol))
    repeated = x[None].expand(epochs, -1, -1, -1, -1)
    for given_x in (x[None], repeated):
        for found, expected in zip(simulate(given_x, one_hot(y)), zip(*trained, strict=True), strict=True):
            torch.testing.assert_close(found, torch.stack(expected).mean(0))


def one_hot(y):
    return nn.functional.one_hot(y, 10).double()


@given(steps=st.integers(1, 6), momentum=st.sampled_from([0.0, 0.5, 0.9]))
def test_a_constant_gradient_is_summed_as_torch_does(steps, momentum):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=momentum)
    for _ in range(steps):
        weight.grad = torch.ones(1)
        optimizer.step()
    assert TrainingProtocol(1.0, steps, None, momentum).gradients_summed(3) == pytest.approx(-weight.item(), rel=1e-5)


def test_one_step_is_the_matching_of_gradients():
    seen, group = observe_training(TrainingProtocol(0.5))
    x, logits = torch.rand(3, 4, 1, 8, 8), one_hot_logits(torch.from_numpy(group.y), 10)
    _, plain = gradient_matching_objective(seen, relative_squared_distance)(x, logits)
    simulate = simulated_gradient_function(seen)
    (by_x, _), unrolled = gradient_matching_objective(seen, relative_squared_distance, gradient_of=simulate)(
        x[:, None], logits
    )
    torch.testing.assert_close(plain, unrolled)
    assert by_x.shape == (3, 1, 4, 1, 8, 8)


@pytest.mark.parametrize("steps", [2, 5])
def test_inputs_come_back_from_several_steps_which_single_gradients_do_not_explain(steps):
    seen, group = observe_training(TrainingProtocol(0.5, steps), batch=2)
    found = mean_psnr_by_victim(group, create_attack("unrolled", steps=80).reconstruct(seen))
    taken_for_one = mean_psnr_by_victim(group, create_attack("inverting-gradients", steps=150).reconstruct(seen))
    assert np.median(found) > 40
    assert np.median(taken_for_one) < 25


def test_momentum_is_simulated_too():
    seen, group = observe_training(TrainingProtocol(0.5, 3, momentum=0.9), batch=2)
    assert np.median(mean_psnr_by_victim(group, create_attack("unrolled", steps=80).reconstruct(seen))) > 40


def test_partners_who_trained_apart_come_back_from_the_mean_of_their_updates():
    seen, group = observe_training(TrainingProtocol(2.0, 3, participants=2), batch=1)
    found = mean_psnr_by_victim(group, create_attack("unrolled", steps=150).reconstruct(seen))
    together = replace(seen, local=TrainingProtocol(2.0, 3))
    as_one = mean_psnr_by_victim(group, create_attack("unrolled", steps=150).reconstruct(together))
    assert np.median(found) > 40
    assert np.median(as_one) < np.median(found) - 10


def test_epochs_in_unknown_order_agree_on_the_examples():
    seen, group = observe_training(TrainingProtocol(0.1, 2, batch_size=2), batch=4, hidden=64)
    found = mean_psnr_by_victim(group, create_attack("unrolled", steps=150).reconstruct(seen))
    assert np.median(found) > 20


def psnr_at_chance(group):
    """Of the examples of another victim."""
    x, y = (torch.from_numpy(np.roll(part, 1, axis=0)) for part in (group.x, group.y))
    return np.median(mean_psnr_by_victim(group, ReconstructedExamples(x, y)))


def test_with_wrong_labels_or_a_random_update_nothing_comes_back():
    seen, group = observe_training(TrainingProtocol(2.0, 3), batch=2)
    attack = create_attack("unrolled", steps=100)
    wrong = attack.reconstruct(replace(seen, y=(seen.y + 5) % 10))
    assert np.median(mean_psnr_by_victim(group, wrong)) < psnr_at_chance(group) + 2
    rng = torch.Generator().manual_seed(5)
    blank = tuple(part.abs() * (torch.randint(0, 2, part.shape, generator=rng) * 2 - 1) for part in seen.gradients)
    nothing = attack.reconstruct(replace(seen, gradients=blank))
    assert np.median(mean_psnr_by_victim(group, nothing)) < psnr_at_chance(group) + 2


def test_adam_approaches_the_inputs_of_several_steps():
    seen, group = observe_training(TrainingProtocol(2.0, 2), batch=1)
    attack = create_attack("unrolled", search="adam", steps=300, rate=0.1)
    assert np.median(mean_psnr_by_victim(group, attack.reconstruct(seen))) > 20


def labels_found(y, found):
    shared = (
        np.bincount(a, minlength=10).clip(max=np.bincount(b, minlength=10)) for a, b in zip(y, found, strict=True)
    )
    return np.mean([each.sum() for each in shared]) / y.shape[1]


def test_more_labels_are_counted_with_the_models_on_the_way():
    seen, group = observe_training(TrainingProtocol(2.0, 5), victims=20, batch=6)
    seen = replace(seen, y=None)
    at_start = labels_found(group.y, infer_labels(seen).numpy())
    on_the_way = labels_found(group.y, infer_labels(seen, probabilities_during_training(seen)).numpy())
    assert on_the_way > at_start + 0.05


def test_at_one_step_the_probabilities_are_those_of_the_global_model():
    seen, _ = observe_training(TrainingProtocol(2.0), victims=2)
    seen = replace(seen, generator=torch.Generator().manual_seed(1))
    noise = torch.rand(256, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    expected = seen.model(seen.low + (seen.high - seen.low) * noise).softmax(-1).mean(0).detach()
    torch.testing.assert_close(probabilities_during_training(seen), expected.expand(2, -1))


def test_local_training_by_adam_is_refused():
    seen, _ = observe_training(TrainingProtocol(0.5, 2), victims=1)
    with pytest.raises(ParameterError, match="unrolled simulates local training by SGD, not by adam"):
        create_attack("unrolled").reconstruct(replace(seen, local=TrainingProtocol(0.5, 2, optimizer="adam")))


def test_epochs_are_matched_whatever_their_order():
    x = torch.rand(3, 5, 1, 8, 8)
    same = torch.stack([x[0], x[0][[3, 1, 4, 0, 2]], x[0].flip(0)])
    torch.testing.assert_close(mean_of_matched_epochs(same), x[0])
    assert float(order_invariant_distance(same)) < 1e-12
    means = x.numpy().mean(1)
    expected = np.mean([np.mean((a - b) ** 2) for a in means for b in means])
    assert float(order_invariant_distance(x)) == pytest.approx(expected, rel=1e-5)


def test_the_time_of_a_step_grows_with_local_steps():
    attack = create_attack("unrolled", steps=50, restarts=2)
    assert attack.inversion_steps(5) == 500
    assert create_attack("dlg", steps=50).inversion_steps(5) == 50

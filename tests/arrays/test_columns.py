import numpy as np
import torch
from torch import nn

from fflbench import registry
from fflbench.engines.flat_model import FlatModel
from fflbench.federation import Columns
from fflbench.registry import Kind


def columns(name):
    with torch.device("meta"):
        return Columns.of_model(registry.get(Kind.TASK, name).create().model())


def test_parameters_come_first_then_float_buffers():
    """The design's figures: 14,728,266 parameters, and two running statistics for each of 4,224 channels."""
    vgg = columns("cifar10-vgg16")
    assert vgg.parameters == slice(0, 14_728_266)
    assert vgg.count == 14_736_714
    names = list(vgg.spans)
    assert names[:4] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert names[-2:] == ["41.running_mean", "41.running_var"]
    assert not any("num_batches" in name for name in names)


def test_the_last_layer_is_the_one_that_decides():
    assert columns("cifar10-vgg16").last_layer == slice(14_728_266 - 5130, 14_728_266)
    mlp = columns("adult-mlp")
    assert mlp.last_layer == slice(4929 - 65, 4929)
    assert mlp.spans["4.weight"] == slice(4929 - 65, 4929 - 1)


def test_a_lone_layer_is_its_own_last_layer():
    assert Columns.of_model(nn.Linear(3, 2)).last_layer == slice(0, 8)


def test_a_flat_model_is_the_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))
    x = torch.randn(4, 1, 8, 8)
    before = model.eval()(x)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    flat = FlatModel(model, torch.device("cpu"))
    torch.testing.assert_close(flat.model(x), before)
    for name, span in flat.columns.spans.items():
        torch.testing.assert_close(flat.flat[span].view(flat.columns.shapes[name]), state[name])
    flat.load(np.zeros(flat.columns.count, np.float32))
    assert not flat.model(x).any()
    assert model[1].running_var.data_ptr() == flat.flat[flat.columns.spans["1.running_var"]].data_ptr()


def test_negative_running_variances_are_clamped_and_nothing_else():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    found = Columns.of_model(model)
    weights = np.full(found.count, -1, np.float32)
    found.clamp_variances(weights)
    assert (weights[found.spans["1.running_var"]] == 0).all()
    assert (weights == 0).sum() == 2

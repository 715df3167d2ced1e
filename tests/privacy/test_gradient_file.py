"""Reconstruction from users' gradient files, written by a script that does not import this project."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from fflbench import cli

NETS = """
import torch
from torch import nn


def small():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.Sigmoid(), nn.Conv2d(12, 12, 3, stride=2, padding=1),
                          nn.Sigmoid(), nn.Flatten(), nn.Linear(192, 10))
    for weights in model.parameters():
        nn.init.uniform_(weights, -0.5, 0.5)
    return model


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(10, 8), nn.Sigmoid(), nn.Linear(8, 1))


def nothing():
    return None


def leaves():
    raise SystemExit("goodbye")


class Unplayable(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.layer, self.error = nn.Linear(2, 2), error

    def forward(self, x):
        raise self.error


def unplayable():
    return Unplayable(RuntimeError("cannot"))


def leaving():
    return Unplayable(SystemExit("goodbye"))
"""

SCRIPT = """
import sys
import torch
from torch import nn
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from nets import small

digits = load_digits()
x = torch.tensor(digits.images[[5, 9]] / 16, dtype=torch.float32)[:, None]
y = torch.tensor(digits.target[[5, 9]])
model, rate = small(), 0.1
save_file({"x": x[:1].contiguous(), "y": y[:1].contiguous()}, "originals.safetensors")
save_file(model.state_dict(), "weights.safetensors")
nn.functional.cross_entropy(model(x[:1]), y[:1]).backward()
save_file({name: weights.grad for name, weights in model.named_parameters()}, "gradient.safetensors")
before = {name: weights.detach().clone() for name, weights in model.named_parameters()}
torch.optim.SGD(model.parameters(), lr=rate).step()
save_file({f"module.{name}": (weights - before[name]).detach() for name, weights in model.named_parameters()},
          "change.safetensors")
torch.save(model.state_dict(), "model.pt")


def claim(name, header, size=0):
    import json

    text = json.dumps(header).encode()
    with open(name, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        if size:
            file.truncate(size)


claim("sparse.safetensors", {"x": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}}, 2**40)
claim("claims.safetensors", {"x": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}})
claim("flat.safetensors", {name: {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [0, 0]} for name in before})
open("empty.safetensors", "wb").close()
save_file({name: torch.ones(value.shape, dtype=torch.complex64) for name, value in before.items()},
          "strange.safetensors")
save_file({"x": torch.ones(1, 1, 8, 8, dtype=torch.bool)}, "bools.safetensors")
assert not any(name.startswith("fflbench") for name in sys.modules)
"""


@pytest.fixture(scope="module")
def exported_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "nets.py").write_text(NETS)
    (folder / "export.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "export.py"], cwd=folder, check=True)
    return folder


@pytest.fixture
def run_attack_command(exported_folder, monkeypatch, tmp_path, capfd):
    """Runs the command in their folder; its exit code and what it printed."""
    monkeypatch.chdir(exported_folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "nets", raising=False)

    def run(name, **options):
        given = {
            "model": "nets:small",
            "gradient": "gradient.safetensors",
            "shape": "1,8,8",
            "out": tmp_path,
            **options,
        }
        arguments = [part for key, value in given.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        with pytest.raises(SystemExit) as end:
            cli.main(["attack", name, *arguments])
        printed = capfd.readouterr()
        return end.value.code, printed.out + printed.err

    return run


def test_a_gradient_from_a_plain_script_is_inverted(run_attack_command, tmp_path):
    code, printed = run_attack_command("dlg", originals="originals.safetensors")
    assert code == 0
    assert "classes: 5" in printed
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["psnr"][0] > 40
    assert result["label_accuracy"] == 1.0
    rebuilt = load_file(tmp_path / "rebuilt.safetensors")
    assert rebuilt["x"].shape == (1, 1, 8, 8)
    assert (tmp_path / "images.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "rebuilt-0.png").exists()


def test_a_change_of_the_model_is_as_good_where_its_rate_is_known(run_attack_command, tmp_path):
    options = {"gradient": "change.safetensors", "learning_rate": 0.1, "labels": 5, "set": "steps=100"}
    code, _ = run_attack_command("idlg", originals="originals.safetensors", weights="weights.safetensors", **options)
    assert code == 0
    assert json.loads((tmp_path / "result.json").read_text())["psnr"][0] > 40


def test_without_originals_there_are_pictures_and_no_scores(run_attack_command, tmp_path):
    code, printed = run_attack_command("inverting-gradients", set="steps=8")
    assert code == 0
    assert "psnr" not in printed
    assert set(json.loads((tmp_path / "result.json").read_text())) == {"attack", "labels", "seconds"}


def test_examples_that_are_no_images_come_back_as_numbers(run_attack_command, tmp_path):
    from torch.nn import functional as F

    sys.path.insert(0, "")
    from nets import linear

    model, x, y = linear(), torch.rand(1, 10), torch.tensor([1.0])
    F.binary_cross_entropy_with_logits(model(x)[:, 0], y).backward()
    save_file({name: weights.grad for name, weights in model.named_parameters()}, tmp_path / "own.safetensors")
    save_file({"x": x, "y": y.long()}, tmp_path / "truth.safetensors")
    options = {"gradient": tmp_path / "own.safetensors", "originals": tmp_path / "truth.safetensors"}
    code, _ = run_attack_command("analytic", model="nets:linear", shape="10", **options)
    assert code == 0
    assert json.loads((tmp_path / "result.json").read_text())["mse"][0] < 1e-8
    assert not (tmp_path / "images.png").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradient": "model.pt"}, "is not a safetensors file"),
        ({"gradient": "absent.safetensors"}, "does not exist"),
        ({"gradient": "originals.safetensors"}, 'the model has no parameter "x"'),
        ({"weights": "originals.safetensors"}, "does not fit the model"),
        ({"model": "nets"}, "takes module:factory"),
        ({"model": "nets:large"}, "has no attribute 'large'"),
        ({"model": "absent:small"}, "No module named 'absent'"),
        ({"model": "nets:nothing"}, "returned a NoneType, not a torch.nn.Module"),
        ({"shape": "3,8,8"}, "takes no inputs of --shape 3,8,8"),
        ({"shape": "one"}, "--shape takes numbers"),
        ({"shape": "0,8,8"}, "at least 1"),
        ({"labels": "10"}, "must be from 0 to 9"),
        ({"labels": "1,2", "count": 3}, "names 2 classes for --count 3"),
        ({"mean": "0.1,0.2"}, "one for each of 1 channels"),
        ({"std": "0"}, "--std numbers above 0"),
        ({"mean": "nan"}, "--mean takes numbers"),
        ({"local_steps": 3}, "needs --learning-rate too"),
        ({"out": "nets.py", "set": "steps=1"}, "cannot be written"),
        ({"set": "stps=3"}, 'did you mean "steps"?'),
        ({"set": "steps"}, "--set takes key=value"),
        ({"originals": "gradient.safetensors"}, 'needs a tensor "x"'),
        ({"originals": "originals.safetensors", "count": 2}, "has shape (1, 1, 8, 8), not (2, 1, 8, 8)"),
        ({"device": "abacus"}, 'device "abacus" is not available'),
        ({"count": 99999999999}, "--count 99999999999 of --shape 1,8,8: at most 67,108,864 numbers"),
        ({"count": "9" * 400}, "at most 67,108,864 numbers"),
        ({"shape": "99999,99999,99999"}, "at most 67,108,864 numbers"),
        ({"shape": "9" * 4000 + ",1,1"}, "at most 67,108,864 numbers"),
        ({"labels": "9" * 400}, "must be from 0 to 9"),
        ({"learning_rate": "nan"}, "--learning-rate"),
        ({"learning_rate": "inf"}, "--learning-rate must be a finite number"),
        ({"learning_rate": "0.1", "local_steps": "9" * 400}, "--local-steps"),
        ({"set": f"steps={'9' * 30}"}, "64 bits"),
        ({"gradient": "."}, "does not exist"),
        ({"gradient": "sparse.safetensors"}, "is larger than 100,0"),
        ({"weights": "sparse.safetensors"}, "is larger than 100,0"),
        ({"originals": "sparse.safetensors"}, "is larger than 100,0"),
        ({"gradient": "claims.safetensors"}, "is not a safetensors file"),
        ({"gradient": "empty.safetensors"}, "is not a safetensors file"),
        ({"gradient": "flat.safetensors"}, "has shape"),
        ({"gradient": "strange.safetensors"}, "does not hold real numbers"),
        ({"originals": "bools.safetensors"}, "does not hold real numbers"),
        ({"model": "nets:leaves"}, "SystemExit"),
        ({"model": "nets:unplayable"}, "takes no inputs of --shape"),
        ({"model": "nets:leaving"}, "takes no inputs of --shape"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(run_attack_command, options, message):
    code, printed = run_attack_command("dlg", **options)
    assert code == 2
    assert message in printed
    assert "Traceback" not in printed


def test_originals_without_classes_are_scored_without_them(run_attack_command, exported_folder, tmp_path):
    save_file({"x": load_file(exported_folder / "originals.safetensors")["x"]}, tmp_path / "x.safetensors")
    run_attack_command("dlg", originals=tmp_path / "x.safetensors", set="steps=1")
    assert "label_accuracy" not in json.loads((tmp_path / "result.json").read_text())


def test_originals_that_are_no_numbers_are_refused(run_attack_command, tmp_path):
    save_file({"x": torch.full((1, 1, 8, 8), torch.nan)}, tmp_path / "x.safetensors")
    code, printed = run_attack_command("dlg", originals=tmp_path / "x.safetensors")
    assert code == 2
    assert "not finite" in printed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("0.bias"), "lacks 1 of the model's 6 parameters (0.bias)"),
        (lambda tensors: tensors.update({"0.bais": tensors.pop("0.bias")}), 'did you mean "0.bias"?'),
        (lambda tensors: tensors.update({"0.bias": torch.zeros(3)}), "has shape (3,), but the model's is (12,)"),
        (lambda tensors: tensors["0.bias"].fill_(torch.nan), "not finite"),
    ],
)
def test_gradients_of_another_model_are_refused(run_attack_command, exported_folder, tmp_path, change, message):
    tensors = load_file(exported_folder / "gradient.safetensors")
    change(tensors)
    save_file(tensors, tmp_path / "other.safetensors")
    code, printed = run_attack_command("dlg", gradient=tmp_path / "other.safetensors")
    assert code == 2
    assert message in printed


def test_attacks_that_reconstruct_nothing_are_refused(run_attack_command):
    code, printed = run_attack_command("lira")
    assert code == 2
    assert "does not reconstruct examples" in printed

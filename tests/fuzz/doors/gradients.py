"""Gradients that people bring to `fflbench attack`."""

import functools
from typing import Any

from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import (
    TEXTS,
    alter_tree,
    damage_bytes,
    hostile_value,
    replace_file_by_other_kind,
    shell_argument,
    typed_text,
)

NETS = """
import torch
from torch import nn

def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Sigmoid(), nn.Linear(4, 3))

def binary():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 1))

def nothing():
    return None

def ends():
    raise SystemExit("\\x1b[31m")

def empty():
    return nn.Sequential()

def no_grad():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3).requires_grad_(False))

def halves():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).half()

class Odd(nn.Module):
    def forward(self, x):
        return {"logits": x}
"""


@functools.cache
def _files() -> dict[str, dict[str, Any]]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.Sigmoid(), nn.Linear(4, 3))
    x, y = torch.rand(1, 1, 4, 4), torch.tensor([1])
    nn.functional.cross_entropy(model(x), y).backward()
    gradient = {name: weights.grad.clone() for name, weights in model.named_parameters() if weights.grad is not None}
    return {"gradient": gradient, "weights": dict(model.state_dict()), "originals": {"x": x, "y": y}}


def _other_tensors(case: Case, tensors: dict[str, Any]) -> dict[str, Any]:
    import torch

    rng = case.rng
    found = dict(tensors)
    name = rng.choice(list(found))
    tensor = found[name]
    others = (
        tensor * float("nan"),
        tensor * 1e38,
        tensor * 0,
        tensor.double() * 1e300,
        tensor.half(),
        tensor.bfloat16(),
        tensor.to(torch.int64),
        tensor.bool(),
        tensor[:0],
        tensor[None],
        tensor.flatten(),
        torch.tensor(1.0),
        torch.zeros(0),
        torch.zeros(3, 10**6),
    )
    kind = rng.randrange(4)
    if kind == 0:
        del found[name]
    elif kind == 1:
        found[rng.choice((*TEXTS, f"module.{name}")).encode("utf-8", "replace").decode()] = found.pop(name)
    else:
        found[name] = rng.choice(others)
    return {name: tensor.contiguous() for name, tensor in found.items()}


OPTIONS = {"model": "nets:small", "gradient": "gradient.safetensors", "shape": "1,4,4", "set": "steps=2"}
MORE = {
    "weights": "weights.safetensors",
    "originals": "originals.safetensors",
    "labels": "1",
    "count": "1",
    "learning-rate": "0.1",
    "local-steps": "2",
    "mean": "0.5",
    "std": "0.5",
    "seed": "1",
}


def write_files(case: Case, altered_file: str = "") -> None:
    """Write a model and the files of its gradient, one of them altered."""
    from safetensors.torch import save

    rng = case.rng
    case.write("nets.py", NETS)
    for name, tensors in _files().items():
        chosen = _other_tensors(case, tensors) if name == altered_file and rng.random() < 0.6 else tensors
        content = save(chosen)
        if name == altered_file and rng.random() < 0.5:
            # The header is JSON behind its length, and the interesting part.
            content = damage_bytes(rng, content[:400]) + content[400:]
        case.write(f"{name}.safetensors", content)


@door("gradients", share=7, prepare=_files)
def gradients(case: Case) -> None:
    """`attack` with altered safetensors files and options."""
    rng = case.rng
    altered_file = rng.choice(("gradient", "gradient", "weights", "originals", ""))
    write_files(case, altered_file)
    if altered_file and rng.random() < 0.05:
        replace_file_by_other_kind(rng, case.folder / f"{altered_file}.safetensors", case.world.outside)
    options: dict[str, Any] = OPTIONS | {name: MORE[name] for name in rng.sample(list(MORE), rng.randrange(4))}
    if altered_file in ("weights", "originals"):
        options[altered_file] = f"{altered_file}.safetensors"
    if rng.random() < 0.5 or not altered_file:
        odd = alter_tree(rng, options, ("1,4,4", "16", "2", "0,1", *(f"nets:{name}" for name in NETS_NAMES)), times=1)
        odd = odd if isinstance(odd, dict) else options
        options = {name: value for name, value in odd.items() if name in OPTIONS | MORE}
    name = rng.choice(
        ("dlg", "idlg", "inverting-gradients", "analytic", "analytic", "lira", typed_text(hostile_value(rng)))
    )
    given = [part for option, value in options.items() for part in (f"--{option}", _argument(value))]
    if options.get("set") != "steps=2" and name != "analytic":
        given += ["--set", "steps=2"]
    case.command("attack", _argument(name), *given, writes=["rebuilt", "__pycache__"])


NETS_NAMES = ("small", "binary", "nothing", "ends", "empty", "no_grad", "halves", "Odd", "missing", "small.x", "")


def _argument(value: Any) -> str:
    return shell_argument(typed_text(value))

"""Gradients that people bring: from a model of theirs and a file to pictures of what was behind it."""

import importlib
import io
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from fflbench import registry
from fflbench.errors import FflbenchError, ParameterError, did_you_mean
from fflbench.privacy.attack import Guess, Observed, PrivacyAttack
from fflbench.privacy.scoring import Score, is_image, pixels, score, shown
from fflbench.progress import bar
from fflbench.records.store import write_whole
from fflbench.registry import Kind
from fflbench.types import Inputs, Labels

FEW = 3
"""Names that an error lists."""

VALUES = 2**26
"""Numbers that are looked for at most: 256 MB in single precision, of which an attack holds several copies."""

HEADER = 10**8
"""Bytes that a safetensors file may have besides its tensors: the format allows as many for its header."""


@dataclass(frozen=True)
class Request:
    """What somebody asks for."""

    attack: str
    model: str
    """A factory, as in package.module:factory."""
    gradient: Path
    shape: tuple[int, ...]
    """Of one example."""
    count: int | None = None
    """Examples behind the gradient; as many as labels, else 1."""
    labels: tuple[int, ...] = ()
    """Their classes, where they are known."""
    weights: Path | None = None
    """The model's, if its factory does not load them."""
    originals: Path | None = None
    """To compare with: x, and y if known."""
    learning_rate: float | None = None
    """Where the file holds a change of the model: the rate that made it."""
    local_steps: int = 1
    """How many steps did."""
    mean: tuple[float, ...] = ()
    """By which inputs were normalised, a number a channel or one for all."""
    std: tuple[float, ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()
    """The attack's parameters."""
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class Answer:
    """What came out; images as pixels from 0 to 1, in the order of the originals where there are any."""

    guess: Guess
    x: Inputs
    originals: Inputs | None
    scores: Score | None
    labelled: bool
    """Whether the originals' classes are known."""
    seconds: float


def answer(request: Request) -> Answer:
    """Run the attack."""
    attack = registry.get(Kind.PRIVACY_ATTACK, request.attack).create(**dict(request.settings))
    if not isinstance(attack, PrivacyAttack):
        raise ParameterError(f"{request.attack} does not rebuild examples from a gradient; dlg, for one, does")
    if request.device != "cpu" and not (request.device.startswith("cuda") and torch.cuda.is_available()):
        raise ParameterError(f'device "{request.device}" is not here; use cpu')
    if request.learning_rate is None and request.local_steps != 1:
        raise ParameterError("--local-steps is for a change of the model, which needs its --learning-rate too")
    if not math.isfinite(request.learning_rate or 1.0):
        raise ParameterError("--learning-rate must be a finite number")
    _bound(request, math.prod(request.shape), f"of --shape {','.join(map(str, request.shape))[:80]}")
    model = _model(request).to(request.device).eval()
    observed = _observed(request, model)
    originals = _originals(request, observed.count)
    start = time.perf_counter()
    total = getattr(attack, "steps", 1) * getattr(attack, "restarts", 1)
    with bar(f"{request.attack} looks for {observed.count} of {'x'.join(map(str, request.shape))}", total) as advance:
        try:
            guess = attack.reconstruct(replace(observed, tell=advance))
        except FflbenchError:
            raise
        # Models that torch cannot differentiate in batches, and strangers' code, which may end in any way.
        except (Exception, SystemExit) as error:
            raise FflbenchError(f"{request.attack} cannot work on this model: {_first_line(error)}") from error
    seconds = time.perf_counter() - start
    low, high = observed.low.cpu().numpy(), observed.high.cpu().numpy()
    found = pixels(guess.x[0].cpu().numpy(), low, high)
    if originals is None:
        return Answer(guess, shown(found), None, None, False, seconds)
    x, y = pixels(originals[0], low, high), originals[1]
    scores = score(x, y, found, guess.y[0].cpu().numpy())
    return Answer(guess, scores.found, x, scores, bool((y >= 0).all()), seconds)


def write(found: Answer, request: Request, out: Path) -> list[str]:
    """Put everything into a folder; the names of the files."""
    told: dict[str, Any] = {
        "attack": request.attack,
        "labels": found.guess.y[0].tolist(),
        "seconds": round(found.seconds, 3),
    }
    if found.scores:
        told |= {name: getattr(found.scores, name) for name in ("mse", "psnr", "ssim")}
        if found.labelled:
            told["label_accuracy"] = found.scores.label_accuracy
    files = {
        "rebuilt.safetensors": save({"x": found.guess.x[0].cpu().contiguous(), "y": found.guess.y[0].cpu()}),
        "result.json": (json.dumps(told, indent=1) + "\n").encode(),
    }
    if is_image(found.x) and found.x.shape[1] in (1, 3):
        files |= _pictures(found, request.attack)
    try:
        for name, content in files.items():
            write_whole(out / name, content)
    except OSError as error:
        raise FflbenchError(f"--out {out} cannot be written: {error}") from error
    return sorted(files)


def _pictures(found: Answer, attack: str) -> dict[str, bytes]:
    """Each image by itself, pixel by pixel, and all of them together, under the originals where there are any."""
    from matplotlib.image import imsave

    from fflbench.report.image_grid import image_grid
    from fflbench.report.picture import plain_text

    images, made = _channels_last(found.x), {}
    for number, image in enumerate(images):
        stream = io.BytesIO()
        imsave(stream, np.repeat(image, 3, 2) if image.shape[2] == 1 else image, format="png")
        made[f"rebuilt-{number}.png"] = stream.getvalue()
    rows = [("rebuilt", images)]
    if found.scores and found.originals is not None:
        rows = [
            ("originals", _channels_last(found.originals)),
            (f"rebuilt\n{np.mean(found.scores.psnr):.1f} dB", images),
        ]
    with plain_text():
        made["images.png"] = image_grid(attack, rows)
    return made


def _channels_last(images: Inputs) -> Inputs:
    return np.clip(images.transpose(0, 2, 3, 1).astype(np.float64), 0, 1)


# What was brought


def _model(request: Request) -> nn.Module:
    module, colon, factory = request.model.partition(":")
    if not (module and colon and factory):
        raise ParameterError(f'--model takes module:factory, as in my_package.nets:lenet, not "{request.model}"')
    if "" not in sys.path:
        # As python -m would find it.
        sys.path.insert(0, "")
    try:
        make: Any = importlib.import_module(module)
        for name in factory.split("."):
            make = getattr(make, name)
        model = make()
    except KeyboardInterrupt:
        raise
    # Strangers' code may end in any way, sys.exit() included.
    except BaseException as error:
        raise FflbenchError(f"--model {request.model}: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise FflbenchError(f"--model {request.model} made no torch.nn.Module but a {type(model).__name__}")
    if request.weights:
        try:
            model.load_state_dict(_tensors(request.weights, "--weights", _size(model)))
        except FflbenchError:
            raise
        except (Exception, SystemExit) as error:
            raise FflbenchError(f"--weights {request.weights} does not fit the model: {_first_line(error)}") from error
    return model


def _size(model: nn.Module) -> int:
    """How many numbers a model holds."""
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _count(request: Request) -> int:
    return request.count or len(request.labels) or 1


def _bound(request: Request, each: int, what: str) -> None:
    """Refuse examples that would not fit into memory, before anything is made of their size."""
    if _count(request) * each > VALUES:
        raise ParameterError(
            f"--count {str(_count(request))[:80]} {what}: at most {VALUES:,} numbers can be looked for at a time"
        )


def _tensors(file: Path, option: str, count: int) -> dict[str, Tensor]:
    """The tensors of a safetensors file; names as they are without the prefix that wrappers for many devices add.

    A file that is too large for so many numbers is not read.
    """
    if not os.path.isfile(file):  # noqa: PTH113 (a name too long for a file is none)
        raise FflbenchError(f"{option} {file} is not there")
    try:
        limit = 8 * count + HEADER
        if file.stat().st_size > limit:
            raise FflbenchError(f"{option} {file} is larger than {limit:,} bytes, which {count:,} numbers may take")
        found = load_file(file)
    except (OSError, SafetensorError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        how = "safetensors.torch.save_file(tensors, file) writes one"
        raise FflbenchError(f"{option} {file} is no safetensors file ({_first_line(error)}); {how}") from error
    prefix = "module."
    wrapped = found and all(name.startswith(prefix) for name in found)
    return {name.removeprefix(prefix): tensor for name, tensor in found.items()} if wrapped else found


def _gradients(request: Request, model: nn.Module) -> tuple[Tensor, ...]:
    """A gradient for each parameter, in the model's order, as of one victim."""
    where = f"--gradient {request.gradient}"
    found = _tensors(request.gradient, "--gradient", _size(model))
    wanted = dict(model.named_parameters())
    buffers = {name for name, _ in model.named_buffers()}
    strange = sorted(set(found) - set(wanted) - buffers)
    if strange:
        near = did_you_mean(strange[0], wanted)
        raise FflbenchError(f'{where}: the model has no parameter "{strange[0]}"{near or _some(list(wanted))}')
    missing = [name for name in wanted if name not in found]
    if missing:
        raise FflbenchError(f"{where} lacks {len(missing)} of the model's {len(wanted)} parameters{_some(missing)}")
    for name, parameter in wanted.items():
        if found[name].shape != parameter.shape:
            shapes = f"{tuple(found[name].shape)}, but the model's is {tuple(parameter.shape)}"
            raise FflbenchError(f'{where}: "{name}" has shape {shapes}')
        found[name] = _real(found[name], f'{where}: "{name}"')
    # A step of gradient descent is minus the rate times the gradient.
    scale = 1.0 if request.learning_rate is None else -1.0 / (request.learning_rate * request.local_steps)
    return tuple((scale * found[name])[None].to(request.device) for name in wanted)


def _real(tensor: Tensor, where: str) -> Tensor:
    """A tensor in single precision, if it holds finite numbers."""
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise FflbenchError(f"{where} holds no real numbers")
    numbers = tensor.float()
    if not numbers.isfinite().all():
        raise FflbenchError(f"{where} holds values that are not finite")
    return numbers


def _observed(request: Request, model: nn.Module) -> Observed:
    classes, loss = _classes(request, model)
    _bound(request, classes, f"of {classes} classes")
    count = _count(request)
    if request.labels and len(request.labels) != count:
        raise ParameterError(f"--labels names {len(request.labels)} classes for --count {count} examples")
    if request.labels and not all(0 <= label < classes for label in request.labels):
        raise ParameterError(f"--labels must be from 0 to {classes - 1}, of the model's {classes} classes")
    low, high = _range(request)
    return Observed(
        model=model,
        gradients=_gradients(request, model),
        count=count,
        shape=request.shape,
        classes=classes,
        loss=cast(Any, loss),
        low=low.to(request.device),
        high=high.to(request.device),
        generator=torch.Generator().manual_seed(request.seed),
        y=torch.tensor([request.labels], device=request.device) if request.labels else None,
    )


def _classes(request: Request, model: nn.Module) -> tuple[int, str]:
    """How many classes the model tells apart, and by which loss it is trained: one output is a logit of two."""
    try:
        with torch.no_grad():
            outputs = model(torch.zeros(2, *request.shape, device=request.device))
    except (Exception, SystemExit) as error:
        raise FflbenchError(
            f"the model takes no inputs of --shape {','.join(map(str, request.shape))}: {_first_line(error)}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        told = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise FflbenchError(f"the model must give one row of logits an example, not {told} for two")
    return (2, "binary-cross-entropy") if outputs.shape[1] == 1 else (outputs.shape[1], "cross-entropy")


def _range(request: Request) -> tuple[Tensor, Tensor]:
    """The least and greatest input of each channel: 0 and 1 before they were normalised."""
    channels = request.shape[0] if len(request.shape) == 3 else math.prod(request.shape)
    mean, std = (_each(request, name, channels, default) for name, default in (("mean", 0.0), ("std", 1.0)))
    if not (std > 0).all() or not (mean.isfinite() & std.isfinite()).all():
        raise ParameterError("--mean takes numbers, and --std numbers above 0")
    shape = (channels, 1, 1) if len(request.shape) == 3 else request.shape
    return ((0 - mean) / std).view(shape), ((1 - mean) / std).view(shape)


def _each(request: Request, name: str, channels: int, default: float) -> Tensor:
    given: Sequence[float] = getattr(request, name) or (default,)
    if len(given) not in (1, channels):
        raise ParameterError(f"--{name} takes one number, or one for each of {channels} channels, not {len(given)}")
    return torch.tensor(given).expand(channels)


def _originals(request: Request, count: int) -> tuple[Inputs, Labels] | None:
    if request.originals is None:
        return None
    found = _tensors(request.originals, "--originals", count * (math.prod(request.shape) + 1))
    if "x" not in found:
        raise FflbenchError(f'--originals {request.originals} needs a tensor "x"{_some(list(found))}')
    x = _real(found["x"], '--originals: "x"')
    if tuple(x.shape) != (count, *request.shape):
        raise FflbenchError(f'--originals: "x" has shape {tuple(x.shape)}, not {(count, *request.shape)}')
    # Classes that no model has stand for unknown ones.
    y = found.get("y", torch.full((count,), -1))
    _real(y, '--originals: "y"')
    if tuple(y.shape) != (count,):
        raise FflbenchError(f'--originals: "y" has shape {tuple(y.shape)}, not {(count,)}')
    return x.numpy(), y.long().numpy()


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:FEW]) + (", ..." if len(names) > FEW else "")
    return f" ({shown})" if names else ""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)

"""Reconstruction of examples from a user's own model and gradient file (`fflbench attack`)."""

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
from fflbench.errors import FflbenchError, ParameterError, did_you_mean_hint
from fflbench.privacy.reconstruction_attack import (
    ObservedGradients,
    ReconstructedExamples,
    ReconstructionAttack,
    TrainingProtocol,
)
from fflbench.privacy.reconstruction_quality import (
    ReconstructionQuality,
    clip_pixels,
    compare_with_originals,
    is_image,
    to_pixels,
)
from fflbench.progress import progress_bar
from fflbench.records.store import write_atomically
from fflbench.registry import Kind
from fflbench.types import Inputs, Labels

NAMES_LISTED = 3
"""Number of names that an error lists."""

MAX_VALUES = 2**26
"""Largest number of values to reconstruct: 256 MB in single precision, of which an attack holds several copies."""

HEADER_BYTES = 10**8
"""Bytes that a safetensors file may have besides its tensors: the format allows as many for its header."""


@dataclass(frozen=True)
class ReconstructionRequest:
    """Options of one reconstruction."""

    attack: str
    model: str
    """Factory, as in package.module:factory."""
    gradient: Path
    shape: tuple[int, ...]
    """Shape of one example."""
    count: int | None = None
    """Number of examples behind the gradient; by default the number of labels, or 1."""
    labels: tuple[int, ...] = ()
    """Labels of the examples, where they are known."""
    weights: Path | None = None
    """File of the model's weights, if its factory does not load them."""
    originals: Path | None = None
    """File of the original examples to compare with: x, and y if known."""
    learning_rate: float | None = None
    """Learning rate, where the file holds an update rather than a gradient."""
    local_steps: int = 1
    """Number of local steps behind an update."""
    mean: tuple[float, ...] = ()
    """Mean by which inputs were normalised, one number per channel or one for all."""
    std: tuple[float, ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()
    """The attack's parameters."""
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class ReconstructionResult:
    """Result of a reconstruction; images as pixels from 0 to 1, in the order of the originals where there are any."""

    examples: ReconstructedExamples
    x: Inputs
    originals: Inputs | None
    quality: ReconstructionQuality | None
    labels_known: bool
    """Whether the originals' labels are known."""
    seconds: float


def reconstruct(request: ReconstructionRequest) -> ReconstructionResult:
    """Run the attack of a request."""
    attack = registry.get(Kind.PRIVACY_ATTACK, request.attack).create(**dict(request.settings))
    if not isinstance(attack, ReconstructionAttack):
        raise ParameterError(f"{request.attack} does not reconstruct examples from a gradient, as dlg does")
    if request.device != "cpu" and not (request.device.startswith("cuda") and torch.cuda.is_available()):
        raise ParameterError(f'device "{request.device}" is not available; use cpu')
    if request.learning_rate is None and request.local_steps != 1:
        raise ParameterError("--local-steps is for an update, which needs --learning-rate too")
    if not math.isfinite(request.learning_rate or 1.0):
        raise ParameterError("--learning-rate must be a finite number")
    _require_memory_for_examples(
        request, math.prod(request.shape), f"of --shape {','.join(map(str, request.shape))[:80]}"
    )
    model = _load_model(request).to(request.device).eval()
    observed = _create_observed_gradients(request, model)
    originals = _read_originals(request, observed.count)
    start = time.perf_counter()
    total = getattr(attack, "steps", 1) * getattr(attack, "restarts", 1)
    with progress_bar(
        f"{request.attack} reconstructs {observed.count} of {'x'.join(map(str, request.shape))}", total
    ) as advance:
        try:
            examples = attack.reconstruct(replace(observed, report=advance))
        except FflbenchError:
            raise
        # Models that torch cannot differentiate in batches, and users' code, which may fail in any way.
        except (Exception, SystemExit) as error:
            raise FflbenchError(f"{request.attack} cannot work on this model: {_first_line(error)}") from error
    seconds = time.perf_counter() - start
    low, high = observed.low.cpu().numpy(), observed.high.cpu().numpy()
    rebuilt = to_pixels(examples.x[0].cpu().numpy(), low, high)
    if originals is None:
        return ReconstructionResult(examples, clip_pixels(rebuilt), None, None, False, seconds)
    x, y = to_pixels(originals[0], low, high), originals[1]
    quality = compare_with_originals(x, y, rebuilt, examples.y[0].cpu().numpy())
    return ReconstructionResult(examples, quality.rebuilt, x, quality, bool((y >= 0).all()), seconds)


def write_result(result: ReconstructionResult, request: ReconstructionRequest, out: Path) -> list[str]:
    """Write all results into a folder and return the names of the files."""
    summary: dict[str, Any] = {
        "attack": request.attack,
        "labels": result.examples.y[0].tolist(),
        "seconds": round(result.seconds, 3),
    }
    if result.quality:
        summary |= {name: getattr(result.quality, name) for name in ("mse", "psnr", "ssim")}
        if result.labels_known:
            summary["label_accuracy"] = result.quality.label_accuracy
    files = {
        "rebuilt.safetensors": save({"x": result.examples.x[0].cpu().contiguous(), "y": result.examples.y[0].cpu()}),
        "result.json": (json.dumps(summary, indent=1) + "\n").encode(),
    }
    if is_image(result.x) and result.x.shape[1] in (1, 3):
        files |= _png_files(result, request.attack)
    try:
        for name, content in files.items():
            write_atomically(out / name, content)
    except OSError as error:
        raise FflbenchError(f"--out {out} cannot be written: {error}") from error
    return sorted(files)


def _png_files(result: ReconstructionResult, attack: str) -> dict[str, bytes]:
    """Return a PNG of each image, and one of all images below the originals where there are any."""
    from torchvision.utils import save_image

    from fflbench.report.figure_files import draw_text_literally
    from fflbench.report.image_grid import image_grid

    images, files = _clip_to_unit_range(result.x), {}
    for number, image in enumerate(images):
        stream = io.BytesIO()
        save_image(torch.from_numpy(image), stream, format="png")
        files[f"rebuilt-{number}.png"] = stream.getvalue()
    rows = [("rebuilt", images)]
    if result.quality and result.originals is not None:
        rows = [
            ("originals", _clip_to_unit_range(result.originals)),
            (f"rebuilt\n{np.mean(result.quality.psnr):.1f} dB", images),
        ]
    with draw_text_literally():
        files["images.png"] = image_grid(attack, rows)
    return files


def _clip_to_unit_range(images: Inputs) -> Inputs:
    return np.clip(images.astype(np.float64), 0, 1)


# Input files


def _load_model(request: ReconstructionRequest) -> nn.Module:
    module, colon, factory = request.model.partition(":")
    if not (module and colon and factory):
        raise ParameterError(f'--model takes module:factory, as in my_package.nets:lenet, not "{request.model}"')
    if "" not in sys.path:
        # As python -m would find it.
        sys.path.insert(0, "")
    try:
        factory_function: Any = importlib.import_module(module)
        for name in factory.split("."):
            factory_function = getattr(factory_function, name)
        model = factory_function()
    except KeyboardInterrupt:
        raise
    # A user's code may fail in any way, sys.exit() included.
    except BaseException as error:
        raise FflbenchError(f"--model {request.model}: {type(error).__name__}: {_first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise FflbenchError(f"--model {request.model} returned a {type(model).__name__}, not a torch.nn.Module")
    if request.weights:
        try:
            model.load_state_dict(_read_safetensors(request.weights, "--weights", _model_value_count(model)))
        except FflbenchError:
            raise
        except (Exception, SystemExit) as error:
            raise FflbenchError(f"--weights {request.weights} does not fit the model: {_first_line(error)}") from error
    return model


def _model_value_count(model: nn.Module) -> int:
    """Return the number of values that a model holds."""
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _example_count(request: ReconstructionRequest) -> int:
    return request.count or len(request.labels) or 1


def _require_memory_for_examples(request: ReconstructionRequest, values_per_example: int, description: str) -> None:
    """Raise a `ParameterError` for examples that would not fit into memory, before anything is allocated."""
    count = _example_count(request)
    if count * values_per_example > MAX_VALUES:
        raise ParameterError(
            f"--count {str(count)[:80]} {description}: at most {MAX_VALUES:,} numbers can be reconstructed at a time"
        )


def _read_safetensors(file: Path, option: str, max_values: int) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file; the prefix that wrappers for several devices add is removed from names.

    A file that is larger than `max_values` numbers can need is not read.
    """
    if not os.path.isfile(file):  # noqa: PTH113 (a name too long for a file is none)
        raise FflbenchError(f"{option} {file} does not exist")
    try:
        limit = 8 * max_values + HEADER_BYTES
        if file.stat().st_size > limit:
            raise FflbenchError(
                f"{option} {file} is larger than {limit:,} bytes, the most that {max_values:,} numbers take"
            )
        tensors = load_file(file)
    except (OSError, SafetensorError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        how = "safetensors.torch.save_file(tensors, file) writes one"
        raise FflbenchError(f"{option} {file} is not a safetensors file ({_first_line(error)}); {how}") from error
    prefix = "module."
    wrapped = tensors and all(name.startswith(prefix) for name in tensors)
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items()} if wrapped else tensors


def _read_gradients(request: ReconstructionRequest, model: nn.Module) -> tuple[Tensor, ...]:
    """Return one gradient per parameter, in the model's order, with a leading axis for one victim."""
    where = f"--gradient {request.gradient}"
    tensors = _read_safetensors(request.gradient, "--gradient", _model_value_count(model))
    wanted = dict(model.named_parameters())
    buffers = {name for name, _ in model.named_buffers()}
    unknown = sorted(set(tensors) - set(wanted) - buffers)
    if unknown:
        near = did_you_mean_hint(unknown[0], wanted)
        raise FflbenchError(
            f'{where}: the model has no parameter "{unknown[0]}"{near or _names_in_parentheses(list(wanted))}'
        )
    missing = [name for name in wanted if name not in tensors]
    if missing:
        raise FflbenchError(
            f"{where} lacks {len(missing)} of the model's {len(wanted)} parameters{_names_in_parentheses(missing)}"
        )
    for name, parameter in wanted.items():
        if tensors[name].shape != parameter.shape:
            shapes = f"{tuple(tensors[name].shape)}, but the model's is {tuple(parameter.shape)}"
            raise FflbenchError(f'{where}: "{name}" has shape {shapes}')
        tensors[name] = _require_finite_numbers(tensors[name], f'{where}: "{name}"')
    # A step of gradient descent is minus the rate times the gradient.
    scale = 1.0 if request.learning_rate is None else -1.0 / (request.learning_rate * request.local_steps)
    return tuple((scale * tensors[name])[None].to(request.device) for name in wanted)


def _require_finite_numbers(tensor: Tensor, where: str) -> Tensor:
    """Return a tensor in single precision, or raise an error where it does not hold finite real numbers."""
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise FflbenchError(f"{where} does not hold real numbers")
    numbers = tensor.float()
    if not numbers.isfinite().all():
        raise FflbenchError(f"{where} holds values that are not finite")
    return numbers


def _create_observed_gradients(request: ReconstructionRequest, model: nn.Module) -> ObservedGradients:
    classes, loss = _class_count_and_loss(request, model)
    _require_memory_for_examples(request, classes, f"of {classes} classes")
    count = _example_count(request)
    if request.labels and len(request.labels) != count:
        raise ParameterError(f"--labels names {len(request.labels)} classes for --count {count} examples")
    if request.labels and not all(0 <= label < classes for label in request.labels):
        raise ParameterError(f"--labels must be from 0 to {classes - 1}, of the model's {classes} classes")
    low, high = _normalised_value_range(request)
    return ObservedGradients(
        model=model,
        gradients=_read_gradients(request, model),
        count=count,
        shape=request.shape,
        classes=classes,
        loss=cast(Any, loss),
        low=low.to(request.device),
        high=high.to(request.device),
        generator=torch.Generator().manual_seed(request.seed),
        local=TrainingProtocol(request.learning_rate or 1.0, request.local_steps),
        y=torch.tensor([request.labels], device=request.device) if request.labels else None,
    )


def _class_count_and_loss(request: ReconstructionRequest, model: nn.Module) -> tuple[int, str]:
    """Return the model's number of classes and its loss: a single output is the logit of two classes."""
    try:
        with torch.no_grad():
            outputs = model(torch.zeros(2, *request.shape, device=request.device))
    except (Exception, SystemExit) as error:
        raise FflbenchError(
            f"the model takes no inputs of --shape {','.join(map(str, request.shape))}: {_first_line(error)}"
        ) from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise FflbenchError(f"the model must give one row of logits per example, not {shape} for two")
    return (2, "binary-cross-entropy") if outputs.shape[1] == 1 else (outputs.shape[1], "cross-entropy")


def _normalised_value_range(request: ReconstructionRequest) -> tuple[Tensor, Tensor]:
    """Return the least and the greatest value of each channel: 0 and 1 before normalisation."""
    channels = request.shape[0] if len(request.shape) == 3 else math.prod(request.shape)
    mean, std = (
        _option_per_channel(request, name, channels, default) for name, default in (("mean", 0.0), ("std", 1.0))
    )
    if not (std > 0).all() or not (mean.isfinite() & std.isfinite()).all():
        raise ParameterError("--mean takes numbers, and --std numbers above 0")
    shape = (channels, 1, 1) if len(request.shape) == 3 else request.shape
    return ((0 - mean) / std).view(shape), ((1 - mean) / std).view(shape)


def _option_per_channel(request: ReconstructionRequest, name: str, channels: int, default: float) -> Tensor:
    given: Sequence[float] = getattr(request, name) or (default,)
    if len(given) not in (1, channels):
        raise ParameterError(f"--{name} takes one number, or one for each of {channels} channels, not {len(given)}")
    return torch.tensor(given).expand(channels)


def _read_originals(request: ReconstructionRequest, count: int) -> tuple[Inputs, Labels] | None:
    if request.originals is None:
        return None
    tensors = _read_safetensors(request.originals, "--originals", count * (math.prod(request.shape) + 1))
    if "x" not in tensors:
        raise FflbenchError(f'--originals {request.originals} needs a tensor "x"{_names_in_parentheses(list(tensors))}')
    x = _require_finite_numbers(tensors["x"], '--originals: "x"')
    if tuple(x.shape) != (count, *request.shape):
        raise FflbenchError(f'--originals: "x" has shape {tuple(x.shape)}, not {(count, *request.shape)}')
    # Labels outside the model's classes stand for unknown ones.
    y = tensors.get("y", torch.full((count,), -1))
    _require_finite_numbers(y, '--originals: "y"')
    if tuple(y.shape) != (count,):
        raise FflbenchError(f'--originals: "y" has shape {tuple(y.shape)}, not {(count,)}')
    return x.numpy(), y.long().numpy()


def _names_in_parentheses(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_LISTED]) + (", ..." if len(names) > NAMES_LISTED else "")
    return f" ({shown})" if names else ""


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)

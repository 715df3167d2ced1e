"""Checks of plugins by kind, and requirements that several of them share."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fflbench.errors import FflbenchError, error_in_one_line
from fflbench.registry import Entry, Kind

CLAIM = "Check that "
"""Beginning of the docstring of every check; the rest is what holds for a plugin that passes."""


class ConformanceError(FflbenchError):
    """Requirement that a plugin does not meet."""


class NotCheckedError(FflbenchError):
    """Plugin that cannot be checked here, since something that it needs is absent."""


@dataclass(frozen=True)
class Check:
    """Requirement of a kind of plugins."""

    name: str
    claim: str
    """Sentence about a plugin that passes, without its full stop."""
    function: Callable[[Entry], None]
    kinds: tuple[Kind, ...]
    applies: Callable[[Entry], bool]

    def __call__(self, entry: Entry) -> None:
        """Raise a `ConformanceError` if a plugin does not meet the requirement."""
        if required := [each.name for each in entry.parameters if each.required]:
            raise NotCheckedError(f"{entry} cannot be checked, since its parameter {required[0]} has no default")
        try:
            self.function(entry)
        except (ConformanceError, NotCheckedError, KeyboardInterrupt):
            raise
        # Foreign code may raise anything, sys.exit() included.
        except BaseException as error:
            raise ConformanceError(self._error_message(entry, error)) from error

    def _error_message(self, entry: Entry, error: BaseException) -> str:
        if isinstance(error, ValueError) and "read-only" in str(error):
            return f"{entry} writes to arrays that it was handed, and must leave them as they are"
        if isinstance(error, FflbenchError | PermissionError):
            return str(error) if str(error).startswith(str(entry)) else f"{entry}: {error}"
        return f"{entry} raised {error_in_one_line(error)} when it was checked that {self.claim}"


_checks: list[Check] = []


def register_check(
    *kinds: Kind, applies: Callable[[Entry], bool] = lambda entry: True
) -> Callable[[Callable[[Entry], None]], Callable[[Entry], None]]:
    """Add a function to the checks of some kinds of plugins; its docstring starts with "Check that"."""

    def add(function: Callable[[Entry], None]) -> Callable[[Entry], None]:
        claim = " ".join((function.__doc__ or "").split("\n\n")[0].split())
        assert claim.startswith(CLAIM)
        name = function.__name__.removeprefix("check_").replace("_", "-")
        _checks.append(Check(name, claim.removeprefix(CLAIM).rstrip("."), function, kinds, applies))
        return function

    return add


def applicable_checks(entry: Entry) -> list[Check]:
    """Return the checks that apply to a plugin."""
    return [each for each in _checks if entry.kind in each.kinds and each.applies(entry)]


def all_checks() -> list[tuple[Kind, Check]]:
    """Return every check, once for each kind of plugins that it is for."""
    return [(kind, each) for each in _checks for kind in each.kinds]


# Requirements


def require(holds: object, entry: Entry, problem: str) -> None:
    """Raise a `ConformanceError` with a problem of a plugin, unless the requirement holds."""
    if not holds:
        raise ConformanceError(f"{entry} {problem}")


def require_array(entry: Entry, what: str, array: Any, shape: tuple[int, ...], dtype: str = "float32") -> None:
    """Require an array, named in the message, of this shape and type."""
    given = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
    right = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == np.dtype(dtype)
    require(right, entry, f"returned {what} as {given}, and must return {dtype} of shape {shape}")


def require_finite(entry: Entry, what: str, array: Any) -> None:
    """Require numbers that are neither NaN nor infinite."""
    require(np.isfinite(array).all(), entry, f"returned {what} with NaN or infinity, and must return finite numbers")


def require_same_bits(entry: Entry, *runs: Callable[[], Any]) -> None:
    """Require that computations give the same bits again in reverse order, whatever global generators hold."""
    with seeded_global_generators(1):
        first = [comparable_bits(run()) for run in runs]
    with seeded_global_generators(2):
        again = [comparable_bits(run()) for run in reversed(runs)]
    require(first == again[::-1], entry, "gave other bits when it was called again with the same inputs and generators")


@contextmanager
def seeded_global_generators(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch, and restore their states afterwards."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


@contextmanager
def require_unchanged(entry: Entry, **arrays: Any) -> Iterator[None]:
    """Require that arrays, named in the message, hold the same bits after a block as before it."""
    before = {name: comparable_bits(array) for name, array in arrays.items()}
    yield
    changed = [name for name, array in arrays.items() if comparable_bits(array) != before[name]]
    require(not changed, entry, f"changed the {' and the '.join(changed)}, which must stay as before")


def comparable_bits(value: Any) -> Any:
    """Return a value in a form in which two are equal exactly if their bits are."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return {key: comparable_bits(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [comparable_bits(each) for each in value]
    return value if value is None or isinstance(value, str | bool) else repr(value)

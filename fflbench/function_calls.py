"""Calls of anyone's function or class, whatever array type it takes and whatever it does.

A function takes a numpy matrix, a torch matrix or a list of rows; a class is created with the parameters, and then the
object or its `aggregate` is called with the rows.
"""

import ast
import contextlib
import importlib
import inspect
import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench import registry
from fflbench.arrays.conversion import real_numbers
from fflbench.errors import FflbenchError, did_you_mean_hint, error_in_one_line
from fflbench.types import Matrix

SAME_NAMES = {
    "f": (
        "f", "n_byzantine", "num_byzantine", "nb_byzantine", "nb_byz", "num_byz", "n_byz", "byzantine_num",
        "n_attackers", "num_attackers", "nb_attackers", "num_malicious", "n_malicious", "num_malicious_nodes",
        "num_malicious_clients", "num_adv", "num_adversaries", "byz_num", "num_excluded",
    ),
    "bound": ("bound", "c", "clip", "clip_norm", "max_norm", "threshold"),
    "s": ("s", "bucket_size"),
    "trusted": ("trusted", "idx"),
    "weights": ("weights", "num_examples", "sizes"),
}  # fmt: skip
"""Names that libraries give to parameters of references."""


class CallError(Exception):
    """Call without a usable result; its text says why."""


@dataclass(frozen=True)
class Arguments:
    """Arguments that a function takes besides the rows."""

    names: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    positional: tuple[str, ...] = ()
    """Those that can only be given by position."""
    any_name: bool = False
    """Whether it takes arguments of any name (`**kwargs`)."""

    def name_of(self, parameter: str) -> str | None:
        """Return the function's name for a parameter of a reference, or None if it takes no such argument."""
        known = (name for name in SAME_NAMES.get(parameter, (parameter,)) if name in self.names)
        return next(known, parameter if self.any_name else None)

    def declare(self, parameter: str) -> bool:
        """Return whether an argument is this parameter; one of any name may be ignored."""
        return self.name_of(parameter) in self.names


class ComparedFunction:
    """Function of rows and named arguments."""

    label: str
    """Name in messages."""
    arguments: Arguments
    changes_rows: bool = False
    """Whether a call has changed the rows that it was given."""

    def call(self, rows: Matrix, named: Mapping[str, Any], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return the result, an array of this shape, or raise a `CallError`."""
        raise NotImplementedError


# Loading


def load_function(text: str) -> "ForeignFunction":
    """Return the function or class that a text such as "my_module:krum" or "my_file.py:krum" names."""
    place, _, name = text.rpartition(":")
    if not (place and name):
        raise FflbenchError(f'"{text}" names no function: write module:function or file.py:function')
    try:
        target: Any = load_module(place)
        for part in name.split("."):
            if not hasattr(target, part):
                raise FflbenchError(f"{place} has no {name}{did_you_mean_hint(part, dir(target))}")
            target = getattr(target, part)
        arguments = _arguments(target)
    except (FflbenchError, KeyboardInterrupt):
        raise
    # Foreign code may raise anything, sys.exit() included.
    except BaseException as error:
        raise FflbenchError(f"{text} cannot be loaded: {error_in_one_line(error)}") from error
    if not callable(target):
        raise FflbenchError(f"{text} is a {type(target).__name__}, and neither a function nor a class")
    return ForeignFunction(text, target, arguments)


def load_module(place: str) -> Any:
    """Import a Python file or a dotted module of the user; plugins in it are registered."""
    if "" not in sys.path:
        # As python -m would find it.
        sys.path.insert(0, "")
    with prints_to_stderr():
        if not place.endswith(".py"):
            return importlib.import_module(place)
        for failure in registry.load_named([place]):
            raise FflbenchError(f"{place} cannot be loaded: {failure.error}")
    return sys.modules[registry.module_name_of_file(place)]


def _arguments(target: Any) -> Arguments:
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        # Functions written in C may have no signature.
        return Arguments()
    own = parameters if inspect.isclass(target) else parameters[1:]
    named = [each for each in own if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    return Arguments(
        tuple(each.name for each in named),
        tuple(each.name for each in named if each.default is each.empty),
        tuple(each.name for each in named if each.kind is each.POSITIONAL_ONLY),
        any(each.kind is each.VAR_KEYWORD for each in own),
    )


# Calling


class ForeignFunction(ComparedFunction):
    """Anyone's function, called with rows of the first array type that gives a result of the right shape."""

    def __init__(self, label: str, target: Callable[..., Any], arguments: Arguments) -> None:
        self.label, self.target, self.arguments = label, target, arguments
        self.container: Callable[[Matrix], Any] | None = None

    def call(self, rows: Matrix, named: Mapping[str, Any], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return the result for a copy of the rows."""
        reasons: list[str] = []
        for name, container in CONTAINERS.items():
            if self.container not in (None, container):
                continue
            copy = rows.copy()
            try:
                result = call_safely(self._with_rows, container(copy), named, shape)
            except CallError as error:
                reasons.append(str(error) if self.container else f"given {name}, {error}")
                continue
            self.container = container
            self.changes_rows |= not np.array_equal(copy, rows)
            return result
        raise CallError("; ".join(reasons[:2]))

    def _with_rows(self, rows: Any, named: Mapping[str, Any]) -> Any:
        positional = [named[name] for name in self.arguments.positional if name in named]
        others = {name: value for name, value in named.items() if name not in self.arguments.positional}
        if not inspect.isclass(self.target):
            return self.target(rows, *positional, **others)
        made: Any = self.target(*positional, **others)
        return made(rows) if callable(made) else made.aggregate(rows)


def call_safely(
    function: Callable[[Any, Mapping[str, Any]], Any], rows: Any, named: Mapping[str, Any], shape: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """Return a function's result as an array of a shape, or raise a `CallError`, whatever the function does."""
    try:
        with prints_to_stderr(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return _to_array(function(rows, named), shape)
    except (CallError, KeyboardInterrupt):
        raise
    # Foreign code may raise anything, sys.exit() included.
    except BaseException as error:
        raise CallError(f"it raised {error_in_one_line(error)}") from error


def _to_array(result: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    # Functions may return the aggregate together with facts about it.
    first = result[0] if isinstance(result, tuple) and len(result) > 1 else result
    wanted = f"{shape[-1]} numbers" if len(shape) == 1 else f"{shape[0]} rows of {shape[1]} numbers"
    try:
        array = real_numbers(_stacked(first)).astype(np.float64)
    except Exception as error:
        raise CallError(f"it returned a {type(first).__name__}, and {wanted} would be right") from error
    if array.shape == shape or array.shape == (1, *shape):
        return array.reshape(shape)
    if array.size == 1:
        raise CallError(
            f"it returned one number ({array.item():g}), and {wanted} would be right "
            "(if that is the index of a row, write a function that returns the row)"
        )
    raise CallError(f"it returned numbers of shape {array.shape}, and {wanted} would be right")


def _stacked(value: Any) -> Any:
    """Return a list of rows as one array, since torch does not convert lists of tensors."""
    return (
        [real_numbers(row) for row in value] if isinstance(value, list | tuple) and any(map(np.ndim, value)) else value
    )


def _torch(rows: Matrix) -> Any:
    import torch

    return torch.from_numpy(rows)


CONTAINERS: dict[str, Callable[[Matrix], Any]] = {
    "a numpy matrix": lambda rows: rows,
    "a torch matrix": _torch,
    "a list of numpy rows": list,
    "a list of torch rows": lambda rows: list(_torch(rows)),
    "a list of lists": lambda rows: rows.tolist(),
}


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Send what foreign code prints to standard error, so that it does not mix with the report."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


# Values of --set

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def formula_value(value: Any, names: Mapping[str, int]) -> Any:
    """Return the value of a formula such as "n - f" or "f/n"; anything else is returned as it is."""
    if not isinstance(value, str):
        return value
    try:
        return _evaluate(ast.parse(value, mode="eval").body, names)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return value


def _evaluate(node: ast.expr, names: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_evaluate(node.left, names), _evaluate(node.right, names))
    raise ValueError("no formula of f and n")

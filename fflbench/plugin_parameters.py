"""Parameters of plugins, read from their signatures and checked strictly.

A parameter is an argument of a function or a field of a dataclass. Its type is its annotation; a text inside
`Annotated` is its one-line meaning, and constraints of `annotated_types` are enforced:

    share: Annotated[float, Ge(0), Lt(0.5), "part of the participants that attack"] = 0.2
"""

import copy
import dataclasses
import functools
import inspect
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from fflbench.errors import ParameterError, did_you_mean_hint, error_in_one_line

if TYPE_CHECKING:
    from pydantic import TypeAdapter

REQUIRED: Any = inspect.Parameter.empty


class AddedLater:
    """Mark, inside `Annotated`, of a parameter that its plugin did not have when results were published.

    Configurations leave it out where it has its default, so that ids of cells stay as they were. It is not for numbers:
    a sweep over one would lack the cell of the default.
    """


@dataclasses.dataclass(frozen=True)
class Parameter:
    """Parameter of a plugin."""

    name: str
    annotation: Any
    default: Any = REQUIRED

    @property
    def type(self) -> str:
        """Readable name of its type."""
        return _type_text(self.annotation)

    @property
    def meaning(self) -> str:
        """Text inside the annotation."""
        return next((extra for extra in self._metadata if isinstance(extra, str)), "")

    @property
    def added_later(self) -> bool:
        """Whether configurations leave it out where it has its default."""
        return any(isinstance(extra, AddedLater) for extra in self._metadata)

    @property
    def _metadata(self) -> tuple[Any, ...]:
        return get_args(self.annotation)[1:] if get_origin(self.annotation) is Annotated else ()

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is REQUIRED

    @functools.cached_property
    def adapter(self) -> "TypeAdapter[Any]":
        """Validator of its values, made once: planning a suite checks the same parameters thousands of times."""
        from pydantic import ConfigDict, TypeAdapter

        return TypeAdapter(self.annotation, config=ConfigDict(allow_inf_nan=False))

    def __str__(self) -> str:
        default = "required" if self.required else f"default {format_value(self.default)}"
        return f"{self.name} ({self.type}, {default})"


def type_without_metadata(annotation: Any) -> Any:
    """Return an annotation without meaning and constraints."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def parameters_of_function(function: Callable[..., Any], filled_in: Collection[str]) -> tuple[Parameter, ...]:
    """Return the parameters of a rule: its arguments except the first and those that the round fills in."""
    hints = get_type_hints(function, include_extras=True)
    arguments = list(inspect.signature(function).parameters.values())[1:]
    declared = [argument for argument in arguments if argument.name not in filled_in]
    for argument in declared:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD) or argument.name not in hints:
            raise TypeError(f"{function.__name__}: {argument} must be one parameter with a type")
    return tuple(Parameter(argument.name, hints[argument.name], argument.default) for argument in declared)


def parameters_of_dataclass(cls: type[Any]) -> tuple[Parameter, ...]:
    """Return the parameters of a dataclass: the fields of its constructor."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        Parameter(field.name, hints[field.name], _field_default(field))
        for field in dataclasses.fields(cls)
        if field.init
    )


def parameter_texts(parameters: Collection[Parameter]) -> list[str]:
    """Return parameters as an error message lists them: a long list without types and defaults."""
    return [str(each) if len(parameters) <= 6 else each.name for each in parameters]


def check_parameters(
    owner: str, parameters: Iterable[Parameter], given: Mapping[str, Any], noun: str = "parameter"
) -> dict[str, Any]:
    """Return `given` with defaults filled in, or raise a `ParameterError` that names the valid parameters.

    Defaults of parameters that were added later are left out, also where they are given.
    """
    from pydantic import ValidationError

    known = {parameter.name: parameter for parameter in parameters}
    valid = f"valid: {', '.join(parameter_texts(known.values()))}" if known else "it takes no parameters"
    for name in given:
        if name not in known:
            raise ParameterError(f'{owner} has no {noun} "{name}"{did_you_mean_hint(name, known)} ({valid})')
    checked = {}
    for name, parameter in known.items():
        if name not in given and parameter.required:
            raise ParameterError(f'{owner} needs the {noun} "{name}" ({valid})')
        value = given.get(name, parameter.default)
        try:
            # A default is checked like any other value, and copied: it may be a list that its owner changes.
            value = _to_python_number(value) if name in given else copy.deepcopy(value)
            # Suite files have no tuples, so a list is accepted for one.
            is_tuple = isinstance(value, list) and get_origin(type_without_metadata(parameter.annotation)) is tuple
            checked[name] = parameter.adapter.validate_python(tuple(value) if is_tuple else value, strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Input ").removeprefix("List ").split(" after validation")[0]
            raise ParameterError(f"{owner}: {name} = {format_value(value)} {reason} ({valid})") from None
        # A plugin may declare any type, with a validator of its own.
        except (Exception, SystemExit) as error:
            raise ParameterError(
                f"{owner}: {name} = {format_value(value)} cannot be checked ({error_in_one_line(error)})"
            ) from error
        if _beyond_64_bits(checked[name]):
            raise ParameterError(f"{owner}: {name} = {format_value(value)} is beyond what 64 bits can hold ({valid})")
    return {
        name: value for name, value in checked.items() if not (known[name].added_later and value == known[name].default)
    }


def _beyond_64_bits(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_beyond_64_bits, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _to_python_number(value: Any) -> Any:
    """Return a scalar of numpy or torch as a Python number."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _field_default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


def _type_text(annotation: Any) -> str:
    annotation = type_without_metadata(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return " | ".join(map(format_value, get_args(annotation)))
    if origin in (Union, UnionType):
        return " | ".join(map(_type_text, get_args(annotation)))
    if origin is not None:
        inside = ", ".join("..." if part is Ellipsis else _type_text(part) for part in get_args(annotation))
        return f"{getattr(origin, '__name__', origin)}[{inside}]"
    if annotation is NoneType:
        return "none"
    return getattr(annotation, "__name__", str(annotation))


def parse_toml_value(text: str) -> Any:
    """Return the value of a text typed after an equals sign: a TOML value, or else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def format_value(value: Any) -> str:
    """Return a value as a suite file would write it."""
    if isinstance(value, str):
        return f'"{_shorten(value)}"'
    try:
        text = str(value)
    except ValueError:
        # Python refuses to print numbers of thousands of digits.
        return "a number too large to print"
    except Exception:
        # The default of a plugin may be anything.
        return f"a {type(value).__name__}"
    return text.lower() if value is None or isinstance(value, bool) else _shorten(text)


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import numpy as np
import pytest
from annotated_types import Ge
from pydantic import AfterValidator

from fflbench.errors import ParameterError
from fflbench.plugin_parameters import (
    AddedLater,
    Parameter,
    check_parameters,
    parameters_of_dataclass,
    parameters_of_function,
)


@dataclass(kw_only=True)
class Noise:
    share: Annotated[float, Ge(0), "part of the participants that attack"] = 0.2
    mode: Annotated[Literal["add", "replace"], "what happens to the update"] = "add"
    rounds: int
    seeds: list[int] | None = None


def rule(updates, f: int, scale: Annotated[float, "of the step"] = 1.0, *, weights=None, rng=None): ...


def refused(given, parameters=None):
    with pytest.raises(ParameterError) as caught:
        check_parameters('attack "noise"', parameters or parameters_of_dataclass(Noise), given)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_type_default_and_meaning_are_read_off_the_signature():
    share, mode, rounds, seeds = parameters_of_dataclass(Noise)
    assert (share.type, share.default, share.meaning) == ("float", 0.2, "part of the participants that attack")
    assert mode.type == '"add" | "replace"'
    assert rounds.required
    assert rounds.meaning == ""
    assert seeds.type == "list[int] | none"


def test_what_the_round_fills_in_is_no_parameter():
    assert [parameter.name for parameter in parameters_of_function(rule, ("weights", "rng"))] == ["f", "scale"]


def test_defaults_are_filled_in():
    assert check_parameters("x", parameters_of_dataclass(Noise), {"rounds": 3}) == {
        "share": 0.2,
        "mode": "add",
        "rounds": 3,
        "seeds": None,
    }


def test_the_default_of_a_parameter_that_was_added_later_is_left_out():
    def later(updates, scale: float = 1.0, mode: Annotated[str, AddedLater(), "how"] = "usual"): ...

    known = parameters_of_function(later, ())
    assert [(each.meaning, each.added_later) for each in known] == [("", False), ("how", True)]
    assert check_parameters("x", known, {}) == check_parameters("x", known, {"mode": "usual"}) == {"scale": 1.0}
    assert check_parameters("x", known, {"mode": "other"}) == {"scale": 1.0, "mode": "other"}


def test_an_unknown_parameter_is_refused_with_the_nearest_and_all_valid_ones():
    message = refused({"rounds": 3, "shard": 0.1})
    assert 'no parameter "shard"; did you mean "share"?' in message
    assert "share (float, default 0.2), mode" in message


def test_a_missing_parameter_is_named():
    assert 'attack "noise" needs the parameter "rounds"' in refused({})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("rounds", "3", 'rounds = "3" should be a valid integer'),
        ("rounds", True, "rounds = true should be a valid integer"),
        ("rounds", 3.0, "rounds = 3.0 should be a valid integer"),
        ("share", -0.1, "share = -0.1 should be greater than or equal to 0"),
        ("share", float("nan"), "share = nan should be"),
        ("share", float("inf"), "share = inf should be a finite number"),
        ("mode", "remove", "mode = \"remove\" should be 'add' or 'replace'"),
        ("seeds", [1, "2"], "seeds = [1, '2'] should be a valid integer"),
    ],
)
def test_an_ill_typed_parameter_is_refused_with_its_value(name, value, reason):
    message = refused({"rounds": 3, name: value})
    assert reason in message
    assert "(valid: share" in message


def test_a_whole_number_is_a_float_and_a_numpy_number_is_a_number():
    checked = check_parameters("x", parameters_of_dataclass(Noise), {"rounds": np.int64(3), "share": 1})
    assert checked["rounds"] == 3
    assert type(checked["rounds"]) is int
    assert checked["share"] == 1.0


def test_a_literal_alone_has_no_meaning():
    @dataclass
    class Bare:
        mode: Literal["add", "replace"] = "add"

    assert parameters_of_dataclass(Bare)[0].meaning == ""


def test_defaults_are_checked_too_and_shared_with_nobody():
    @dataclass
    class Listed:
        seen: list[int] = field(default_factory=list)
        pair: tuple[int, int] = (1, 2)
        rate: float = "fast"

    parameters = parameters_of_dataclass(Listed)
    first, second = (check_parameters("x", parameters, {"rate": 1.0, "pair": [3, 4]}) for _ in range(2))
    first["seen"].append(1)
    assert second == {"seen": [], "pair": (3, 4), "rate": 1.0}
    assert 'rate = "fast" should be a valid number' in refused({}, parameters)


def test_an_array_is_no_number():
    assert "should be a valid integer" in refused({"rounds": np.array([1, 2])})


@pytest.mark.parametrize(
    "function", [lambda updates, f: None, lambda updates, *options: None, lambda updates, **options: None]
)
def test_an_argument_that_cannot_be_checked_is_refused(function):
    with pytest.raises(TypeError, match="must be one parameter with a type"):
        parameters_of_function(function, ())


def test_a_plugin_without_parameters_says_so():
    with pytest.raises(ParameterError, match="it takes no parameters"):
        check_parameters("median", (), {"f": 1})


class Mute:
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "annotation",
    [Final[int], Callable[[int], str], Any, "nonsense", 5, np.ndarray, type(None), type[int], Mute, Iterator[int]],
)
def test_whatever_a_plugin_asks_for_is_shown_and_checked_or_refused(annotation):
    parameter = Parameter("odd", annotation, Mute())
    assert "odd" in str(parameter)
    assert isinstance(parameter.type, str)
    with suppress(ParameterError):
        check_parameters("x", [parameter], {"odd": Mute()})
    with suppress(ParameterError):
        check_parameters("x", [parameter], {})
    with pytest.raises(ParameterError, match='x has no parameter "other"'):
        check_parameters("x", [parameter], {"other": 1})


def test_a_type_with_a_validator_that_leaves_is_refused():
    def leave(value):
        raise SystemExit("goodbye")

    parameter = Parameter("odd", Annotated[int, AfterValidator(leave)], 1)
    assert "odd = 3 cannot be checked (SystemExit: goodbye)" in refused({"odd": 3}, [parameter])

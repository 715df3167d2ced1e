"""Checks of records that anyone may have written: what every record must have, and what its measure declares."""

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench import registry
from fflbench.errors import FflbenchError, error_in_one_line
from fflbench.metrics import LARGEST
from fflbench.records.cell_configuration import CHAIN, GOALS, parameter_values
from fflbench.records.npz_file import Arrays
from fflbench.registry import Entry, Kind

if TYPE_CHECKING:
    from fflbench.records.record import Record

LONGEST = 200
"""Most characters of a label."""
LONGEST_FILE = 255
"""Most characters of a file's name, which names its suite."""
LONGEST_TITLE = 300
"""Most characters of a suite's title."""
MOST = 10**12
"""Highest count."""

Number = Annotated[float, Ge(-LARGEST), Le(LARGEST)]
"""A finite number."""
Positive = Annotated[float, Gt(0), Le(LARGEST)]
"""A number above 0."""
NotNegative = Annotated[float, Ge(0), Le(LARGEST)]
"""A number from 0."""
Count = Annotated[int, Ge(0), Le(MOST)]
"""A whole number from 0."""
PositiveCount = Annotated[int, Ge(1), Le(MOST)]
"""A whole number from 1."""
Share = Annotated[float, Ge(0), Le(1)]
"""A number from 0 to 1."""
Text = Annotated[str, Field(max_length=10_000)]
"""A text of at most 10,000 characters."""


class RecordFields(BaseModel):
    """Part of a record that tables use; keys that it does not name are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Manifest(RecordFields):
    processor: Text = ""
    device: Text = ""
    plugins: list[Text] = []


class _Guarantee(RecordFields):
    epsilon: Number | None


class _Facts(RecordFields):
    knows: list[Text] = []
    flags: list[Text] = []
    guarantee: _Guarantee | None = None


class _Finished(RecordFields):
    suite: Annotated[str, Field(max_length=LONGEST_FILE)]
    title: Annotated[str, Field(max_length=LONGEST_TITLE)]
    manifest: _Manifest
    seconds: dict[Text, Number]
    facts: _Facts
    metrics: dict[Text, bool | Number | list[Number | None] | None]


class _FailedFacts(RecordFields):
    model_config = ConfigDict(extra="forbid")

    run_alone: str = ""


class _Failed(_Finished):
    """Failed cell, without any result that could enter a table."""

    facts: _FailedFacts  # type: ignore[assignment]
    metrics: dict[str, Any] = Field(max_length=0)
    history: list[Any] = Field(max_length=0)
    arrays: str = Field(max_length=0)


class _Sweep(RecordFields):
    model_config = ConfigDict(extra="forbid")

    parameter: Text
    value: int | Number
    label: str


PARTS = {"task", "measure", "defense", "seed"}
DEVIATION = "deviation"
ATTACKS: tuple[set[str], ...] = (
    *(set(), {Kind.ATTACK.value}, {Kind.PRIVACY_ATTACK.value}),
    {Kind.ATTACK.value, DEVIATION},
)


def check_record(record: "Record") -> None:
    """Refuse a record that lacks what tables need, with a `ValueError`."""
    for label in (*record.labels.values(), *record.shared_by):
        check_label(label)
    if record.labels["defense"] in record.shared_by:
        raise ValueError("not a valid record: its defense shares its result with itself")
    parts = set(record.configuration) - ({GOALS} if Kind.ATTACK in record.configuration else set())
    if not parts >= PARTS or parts - PARTS not in ATTACKS:
        raise ValueError(f"not a valid record: its configuration has {', '.join(sorted(parts))[:LONGEST]}")
    if set(record.labels) != parts - {"seed"}:
        raise ValueError("not a valid record: its labels and its configuration name different parts")
    name = record.configuration["measure"]["name"]
    try:
        (_Finished if record.status == "done" else _Failed).model_validate(dict(record))
        _check_sweeps(record)
        if entry := registry.find(Kind.MEASURE, record.measure):
            _check_against_measure(record, entry)
    except ValidationError as error:
        raise ValueError(f"no record of {name[:LONGEST]}: {first_problem(error)}") from error
    except (ValueError, FflbenchError) as error:
        raise ValueError(f"no record of {name[:LONGEST]}: {error}") from error
    except Exception as error:
        # The declaration of an outside measure may raise anything.
        raise ValueError(f"no record of {name[:LONGEST]}: {error_in_one_line(error)}") from error


def check_label(label: str) -> None:
    """Refuse a label that no table can show, with a `ValueError`."""
    if not 0 < len(label) <= LONGEST:
        raise ValueError(f"the label {label[:20]!r} has {len(label)} letters, and must have 1 to {LONGEST}")
    if not label.isprintable():
        raise ValueError(f"the label {label[:20]!r} has characters that cannot be printed")


def check_arrays(record: "Record", arrays: Arrays) -> None:
    """Refuse arrays that are not those of the record's measure, with a `ValueError`."""
    if not (entry := registry.find(Kind.MEASURE, record.measure)):
        return
    try:
        entry.create(**_measure_parameters(record, entry)).check_arrays(arrays)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(error_in_one_line(error)) from error


def _check_sweeps(record: "Record") -> None:
    of_others = [("defense", sweep) for sweep in record.shared_by.values() if sweep]
    for kind, content in (*record.sweep.items(), *of_others):
        sweep = _Sweep.model_validate(content)
        check_label(sweep.label)
        values = parameter_values(record.configuration[kind], sweep.parameter) if kind in set(record.labels) else ()
        if isinstance(sweep.value, bool) or sweep.value not in values:
            raise ValueError(f"the sweep of its {kind[:LONGEST]} is over no parameter that its configuration has")


def _check_against_measure(record: "Record", entry: Entry) -> None:
    """Refuse a record that differs from the declaration of its measure, with a `ValueError`."""
    declared = entry.target
    _measure_parameters(record, entry)
    attacks, expected = set(record.configuration) - PARTS - {DEVIATION, GOALS}, {declared.attacked} - {None}
    if attacks != expected:
        raise ValueError(f"it has {min(attacks, default='no attack')}, and must have {min(expected, default='none')}")
    if set(record.configuration["defense"]) != set(declared.depends_on):
        raise ValueError(f"its defense must have these parts and no others: {', '.join(declared.depends_on)}")
    if record.shared_by and set(declared.depends_on) == set(CHAIN):
        raise ValueError("it depends on every part of a defense, so none can share it")
    if record.status == "failed":
        return
    for metric in declared.metrics:
        if problem := metric.problem(record.metrics.get(metric.name)):
            raise ValueError(f"metrics.{metric.name} {problem}")
        trials = record.facts.get(metric.trials)
        if metric.trials and (type(trials) is not int or trials < 1):
            raise ValueError(f"facts.{metric.trials} is no number of trials")
    _validate(declared.facts, record.facts, "facts")
    for place, item in enumerate(record.history):
        _validate(declared.item, item, f"history.{place}")


def _validate(model: type[RecordFields], content: Any, place: str) -> None:
    try:
        model.model_validate(content)
    except ValidationError as error:
        raise ValueError(f"{place}.{first_problem(error)}") from error


def _measure_parameters(record: "Record", entry: Entry) -> dict[str, Any]:
    """Return the parameters of a record's measure, or raise an error where one is missing or impossible."""
    given = record.configuration["measure"]["parameters"]
    known = [each.name for each in entry.parameters if each.name in given or not each.added_later]
    for name in known:
        value = given.get(name)
        if name not in given:
            raise ValueError(f"{entry} needs a value for {name}")
        if isinstance(value, int | float) and abs(value) > (MOST if isinstance(value, int) else LARGEST):
            raise ValueError(f"{name} is larger than any that a cell can have")
    return entry.check({name: given[name] for name in known})


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a validation in one line: its place and pydantic's message."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))[:LONGEST]
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message

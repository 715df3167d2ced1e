"""Checks of plugins and of anyone's functions (`fflbench check`): conformance, and comparison with references."""

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import typer

from fflbench import registry
from fflbench.aggregation import aggregate
from fflbench.arrays.columns import Columns
from fflbench.comparison import Comparison, compare, find_reference
from fflbench.conformance import ConformanceError, NotCheckedError, applicable_checks
from fflbench.errors import FflbenchError, did_you_mean_hint
from fflbench.federation.rule import Geometry
from fflbench.federation.views import View
from fflbench.function_calls import (
    Arguments,
    ComparedFunction,
    call_safely,
    load_function,
    load_module,
    prints_to_stderr,
)
from fflbench.progress import progress_bar
from fflbench.references import REFERENCES, Reference
from fflbench.registry import Entry, Kind
from fflbench.types import Matrix

COMPARED = (Kind.RULE, Kind.PREAGGREGATION)
"""Kinds of plugins that references define."""


def check_target(target: str, rule: str | None, kind: Kind | None, settings: Mapping[str, Any]) -> bool:
    """Check a function, a file or a registered name, print what holds, and return whether everything does."""
    reference = None if rule is None else find_reference(rule)
    if settings and reference is None:
        raise FflbenchError("--set is for comparisons: say with which definition, as in --rule krum")
    if ":" in target:
        if reference is None:
            raise FflbenchError(f"{target} is a function: say with which definition it is compared, as in --rule krum")
        return _compare_and_print(_registered(load_function(target)), reference, settings)
    entries = _entries_of_file(target) if target.endswith(".py") else _entries_of_name(target)
    if kind is not None:
        entries = [entry for entry in entries if entry.kind is kind]
        if not entries:
            raise FflbenchError(f"{target} has no plugin of the kind {kind}")
    if reference is None:
        return sum(not _check_and_print(entry) for entry in entries) == 0
    compared = [entry for entry in entries if entry.kind in COMPARED]
    if not compared:
        raise FflbenchError(f"{target} is neither a rule nor a pre-aggregation, and {rule} is the definition of one")
    return sum(not _compare_and_print(RegisteredFunction(entry), reference, settings) for entry in compared) == 0


# Targets


def _entries_of_file(file: str) -> list[Entry]:
    module = load_module(file)
    if own := registry.entries_of_file(Path(file)):
        return own
    functions = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
    hint = f"; to compare a function: fflbench check {file}:{functions[0]} --rule krum" if functions else ""
    raise FflbenchError(f"{file} registers no plugin{hint}")


def _entries_of_name(name: str) -> list[Entry]:
    found = [entry for entry in _all_entries() if entry.name == name]
    if found:
        return found
    hint = did_you_mean_hint(name, [entry.name for entry in _all_entries()])
    raise FflbenchError(
        f'no plugin "{name}" is registered{hint} (a file ends with .py, a function is module:function; a plugin of '
        "another file: --plugin)"
    )


def _all_entries() -> list[Entry]:
    return [entry for kind in Kind for entry in registry.entries(kind)]


# Conformance


def _check_and_print(entry: Entry) -> bool:
    """Print which requirements a plugin meets, and return whether it meets all that could be checked."""
    holding: list[str] = []
    failing: list[str] = []
    left_out: list[str] = []
    checks = applicable_checks(entry)
    with progress_bar(f"checking {entry}", len(checks)) as advance:
        for check in checks:
            try:
                with prints_to_stderr():
                    check(entry)
                holding.append(f"holds: {check.claim}")
            except ConformanceError as error:
                if any(str(error) in line for line in failing):
                    left_out.append(f"not checked, for the same reason: {check.claim}")
                else:
                    failing.append(f"does not hold: {check.claim}: {error}")
            except NotCheckedError as error:
                left_out.append(f"not checked: {check.claim}: {error}")
            advance(1)
    count = f"all {len(holding)} hold" if len(holding) == len(checks) else f"{len(holding)} of {len(checks)} hold"
    _print_section(f"{entry}, {entry.file}: {count}", [*holding, *failing, *left_out])
    agrees = True
    if entry.kind in COMPARED and entry.name in REFERENCES:
        agrees = _compare_and_print(RegisteredFunction(entry), REFERENCES[entry.name], {})
    return agrees and bool(holding) and not failing


# Comparison


class RegisteredFunction(ComparedFunction):
    """A registered rule or pre-aggregation, called as a server calls it in a first round."""

    def __init__(self, entry: Entry) -> None:
        self.label, self.entry = str(entry), entry
        required = tuple(each.name for each in entry.parameters if each.required)
        weights = ("weights",) if entry.kind is Kind.RULE else ()
        self.arguments = Arguments((*(each.name for each in entry.parameters), *weights), required)

    def call(self, rows: Matrix, named: Mapping[str, Any], shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return the aggregate, or the combined rows."""
        function = self._aggregate if self.entry.kind is Kind.RULE else self._combine
        return call_safely(function, rows, named, shape)

    def _aggregate(self, rows: Matrix, named: Mapping[str, Any]) -> Any:
        return aggregate(self.entry.name, rows, **named)

    def _combine(self, rows: Matrix, named: Mapping[str, Any]) -> Any:
        n, d = rows.shape
        view = View(0, np.zeros(d, np.float32), rows, np.ones(n), Columns.of_length(d), n, np.arange(n), np.ones(n))
        step = self.entry.create(**named)
        return step.coefficients(view.read_only(), Geometry(rows), np.random.default_rng(0)) @ rows.astype(np.float64)


def _registered(function: Any) -> ComparedFunction:
    """Return a registered function as a server calls it, since the round fills in some of its arguments."""
    entry = next((each for each in _all_entries() if each.kind in COMPARED and each.target is function.target), None)
    return function if entry is None else RegisteredFunction(entry)


def _compare_and_print(function: ComparedFunction, reference: Reference, settings: Mapping[str, Any]) -> bool:
    with progress_bar(f"comparing {function.label} with {reference.name}", None) as advance:
        comparison = compare(function, reference, settings, advance)
    _print_section(*_comparison_lines(comparison))
    return comparison.agrees


def _comparison_lines(comparison: Comparison) -> tuple[str, list[str]]:
    agrees = comparison.agrees
    verdict = "agrees with" if agrees or comparison.agrees_unless_hostile else "differs from"
    where = "" if agrees or not comparison.agrees_unless_hostile else " except on hostile matrices"
    title = f"{comparison.label} {verdict} {comparison.reference.name}{where}"
    lines = [f"definition: {comparison.reference.citation}", f"agrees on {comparison.counts}"]
    lines += [] if agrees else [f"differs: {sentence}" for sentence in comparison.sentences]
    lines += [f"note: {note}" for note in comparison.notes]
    return title, [*lines, *comparison.example]


def _print_section(title: str, lines: Iterable[str]) -> None:
    typer.echo(title)
    for line in lines:
        typer.echo(f"  {line}")

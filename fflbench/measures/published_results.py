"""Figures and claims published in papers, to compare with measured results; plugins register those of their papers."""

import csv
import functools
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fflbench.errors import ParameterError
from fflbench.records.validation import first_problem

PREFIXES = {"K": 1e3, "M": 1e6}
"""Letters after rounded numbers, as in 15M."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedFigure(_Model):
    """One figure of a table, under the names that the paper has for it and under ours."""

    table: str
    """Label of its table in the paper."""
    row: str
    column: str
    benchmark: str
    value: str
    """The figure as printed, without separators of thousands."""
    unit: str
    measure: str
    task: str
    defense: str
    deviation: str
    """Label of the participants' deviation from the protocol, if any."""
    attack: str
    metric: str
    """A metric of the measure, or the path of a fact, as in `seconds.sent.total`."""
    updates: int | None
    """Number of updates in a round, where the measure has it as a parameter."""

    @property
    def number(self) -> float:
        """Its value in the unit of records; percentages are shares."""
        rounded = self.value.removeprefix("~")
        return float(rounded.rstrip("KM")) * PREFIXES.get(rounded[-1], 1.0) / (100 if self.unit == "%" else 1)


Predicate = Literal["better", "not-worse", "similar", "within"]
"""Better than others (by at least `by`), not worse than others by more than `by`, no further from others than `by`, or
from `low` to `high`."""


class ClaimTest(_Model):
    """Test of a claim: a predicate on metrics of rows, all of which must fulfil it on every task."""

    predicate: Predicate
    metrics: tuple[str, ...] = Field(min_length=1)
    """Metrics or paths of facts; `last.` leads to the last item of a record's history; sums and differences of them."""
    quantity: str = ""
    """Words for its metrics, if they are not declared ones."""
    rows: tuple[str, ...] = Field(min_length=1)
    """Rows as tables name them, or groups of rows."""
    than: tuple[str, ...] = ()
    """Rows that they are compared with; without any, the same rows under `than_table`."""
    table: str = ""
    """Table of the rows, if it is another than the claim's."""
    than_table: str = ""
    """Table of the rows that they are compared with, if it is another."""
    tasks: tuple[str, ...] = ()
    """Those of the claim's tasks that it is about; without any, all."""
    by: float = 0.0
    low: float | None = None
    high: float | None = None
    relative_to: str = ""
    """Row by whose value all values are divided."""
    growth: dict[str, tuple[str | int, str | int]] = Field({}, max_length=1)
    """Task or parameter of the measure, with two values: the second's value is divided by the first's."""
    parameters: dict[str, Any] = {}
    """Parameters of the measure."""


class PublishedClaim(_Model):
    """An empirical sentence of a paper, with its test or the reason why there is none."""

    id: str
    sentence: str
    section: str
    """Section or table of the paper."""
    table: str = ""
    """Table whose measure and attack the test is about."""
    measure: str = ""
    attack: str = ""
    """Both, where no table of the paper has them."""
    tasks: tuple[str, ...] = ()
    tests: tuple[ClaimTest, ...] = ()
    reason: str = ""
    """Reason why it cannot be tested."""
    note: str = ""
    """Remark for readers, as on thresholds that the paper leaves open."""


class PublishedPaper(_Model):
    """Results of a paper."""

    citation: str
    tables: dict[str, str]
    """Captions by label."""
    settings: dict[str, dict[str, Any]] = {}
    """Parameters of tasks that the paper states."""
    attacks: dict[str, dict[str, dict[str, Any]]] = {}
    """Parameters of attacks that the paper states, by task."""
    open_parameters: tuple[str, ...] = ()
    """Parameters of tasks that the paper does not state and that its results may depend on."""
    groups: dict[str, tuple[str, ...]] = {}
    """Names for several rows, in tests of claims."""
    claims: tuple[PublishedClaim, ...]
    figures: tuple[PublishedFigure, ...]

    def context(self, claim: PublishedClaim, table: str = "") -> tuple[str, str]:
        """Return the measure and the attack that a claim is about, in another table if one is given."""
        figures = [figure for figure in self.figures if figure.table == (table or claim.table)]
        attacks = [figure.attack for figure in figures if figure.attack != "none"]
        return claim.measure or figures[0].measure, claim.attack or attacks[0]


_files: dict[Path, Path] = {}


def register(figures: Path, claims: Path) -> None:
    """Add the results of a paper: a CSV file of its figures, and a TOML file of all else."""
    _files[claims] = figures


def papers() -> list[PublishedPaper]:
    """Return all papers with published results."""
    return [_read_paper(figures, claims) for claims, figures in _files.items()]


@functools.cache
def _read_paper(figures: Path, claims: Path) -> PublishedPaper:
    try:
        with figures.open(encoding="utf-8", newline="") as stream:
            listed = [row | {"updates": row["updates"] or None} for row in csv.DictReader(stream)]
        return PublishedPaper.model_validate({**tomllib.loads(claims.read_text("utf-8")), "figures": listed})
    except ValidationError as error:
        raise ParameterError(f"published results in {claims.parent}: {first_problem(error)}") from error
    except (OSError, ValueError, KeyError) as error:
        raise ParameterError(f"published results in {claims.parent} cannot be read: {error}") from error


def find_figures(**fields: object) -> list[PublishedFigure]:
    """Return the figures of all papers that have these fields, as in `measure="runtime", task="mnist-cnn"`."""
    every = [figure for paper in papers() for figure in paper.figures]
    return [figure for figure in every if all(getattr(figure, name) == value for name, value in fields.items())]

"""What a result is: one JSON file a cell, with all that is needed to trust it and to run it again."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from fflbench.errors import RecordError
from fflbench.reading import parse_json
from fflbench.records import validation
from fflbench.records.arrays import digest, unpack
from fflbench.records.parts import defense_name, is_defense, is_part

LARGEST = 2**26
"""Bytes that a record may have."""
DIGEST = "digest"
"""Key of a record's file: a record that was altered or damaged since it was written is refused."""


def identify(configuration: Mapping[str, Any]) -> str:
    """A cell's id: a hash of its whole configuration, parameters included; a `ValueError` if no record can hold it."""
    canonical = json.dumps(configuration, sort_keys=True, separators=(",", ":")).encode()
    parse_json(canonical)
    return hashlib.sha256(canonical).hexdigest()[:16]


def _content_digest(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class Record(BaseModel):
    """One finished or failed cell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[2] = 2
    id: str = Field(pattern=r"^[0-9a-f]{16}$")
    suite: str
    title: str = ""
    """Of the suite, as its file had it."""
    labels: dict[str, str]
    sweep: dict[str, dict[str, Any]] = {}
    """By kind (task, attack, ...), the parameter that its suite sweeps over: its name, its value here and the label
    that all values share."""
    shared_by: dict[str, dict[str, Any]] = {}
    """Labels of other defenses that have this result too, since they agree in all that the measure depends on; with
    the sweep of each, if any."""
    configuration: dict[str, Any]
    status: Literal["done", "failed"]
    error: str = ""
    metrics: dict[str, bool | float | list[float | None] | None] = {}
    facts: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}
    arrays: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    """The digest of the file of arrays beside it, if there is one."""
    manifest: dict[str, Any]
    _packed: bytes = PrivateAttr(b"")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        others = [kind for kind in ("attack", "privacy-attack", "deviation") if kind in self.configuration]
        for kind in ("task", "measure", *others):
            if kind not in self.labels or not is_part(self.configuration.get(kind)):
                raise ValueError(f"no {kind} with a label, a name and parameters")
        if "defense" not in self.labels or not is_defense(self.configuration.get("defense")):
            raise ValueError("no defense with a label and the name and parameters of each part")
        if type(self.configuration.get("seed")) is not int:
            raise ValueError("no seed")
        if self.id != identify(self.configuration):
            raise ValueError("the id is not that of the configuration")
        if self.status == "done" and not self.metrics:
            raise ValueError("a finished cell without metrics")
        return self

    @property
    def measure(self) -> str:
        """Name of its measure."""
        return str(self.configuration["measure"]["name"])

    @property
    def defense(self) -> str:
        """Name of its defense, or of those parts of it that the measure depends on, whatever the suite's label."""
        return defense_name(self.configuration["defense"])

    @property
    def seed(self) -> int:
        """Seed of its cell."""
        seed: int = self.configuration["seed"]
        return seed

    @property
    def packed(self) -> bytes:
        """The content of that file, on its way there; nothing in a record that was read."""
        return self._packed

    @classmethod
    def parse(cls, content: bytes, *, digest_required: bool = False) -> Self:
        """Return the record that a file holds; a `ValueError` says what the file is instead."""
        try:
            value = parse_json(content)
        except ValueError as error:
            raise ValueError(f"damaged: {error}") from error
        # Of everything else in the file; records of other tools may do without, but not in a leaderboard.
        found = value.pop(DIGEST, None) if isinstance(value, dict) else None
        if found not in (None, _content_digest(value)):
            raise ValueError("damaged: it is not what its digest says")
        if found is None and digest_required:
            raise ValueError(f'no record that can be trusted: it has no "{DIGEST}"')
        try:
            record = cls.model_validate(value, strict=True)
        except ValidationError as error:
            raise ValueError(f"no record: {validation.first_problem(error)}") from error
        validation.check(record)
        return record

    def carrying(self, packed: bytes) -> Self:
        """The same record with the content of its file of arrays."""
        if packed:
            validation.check_arrays(self, unpack(packed))
        record = self.model_copy(update={"arrays": digest(packed)})
        record._packed = packed
        return record

    @property
    def reason(self) -> str:
        """Why it failed, in a line."""
        return (self.error.splitlines() or ["for no reason given"])[-1]

    def __str__(self) -> str:
        return f"{' · '.join(self.labels.values())} · seed {self.configuration['seed']}"

    def command(self, file: Path, *options: str) -> str:
        """What runs its cell again, alone, from its file."""
        plugins = self.manifest.get("plugins")
        named = [part for name in plugins for part in ("--plugin", str(name))] if isinstance(plugins, list) else []
        device = self.manifest.get("device")
        where = ["--device", str(device)] if device not in (None, "cpu") else []
        return shlex.join(["fflbench", "run", str(file), *options, *where, *named])

    def json_text(self, indent: int | None = 1) -> str:
        """The content of its file, or without indent one line; a `RecordError` where that could not be read again."""
        content = json.loads(json.dumps(self.model_dump(), allow_nan=False))
        separators = (",", ":") if indent is None else None
        text = json.dumps({**content, DIGEST: _content_digest(content)}, indent=indent, separators=separators) + "\n"
        if len(text) > LARGEST:
            raise RecordError(f"a record of {len(text):,} bytes is larger than {LARGEST:,}, the most that is read")
        try:
            self.parse(text.encode())
        except ValueError as error:
            raise RecordError(f"what was found is {error}") from error
        return text

    def result(self) -> dict[str, Any]:
        """Content that the configuration decides to the bit, unless it measures time: no timings, manifest or title."""
        return self.model_dump(exclude={"seconds", "manifest", "title"})


class Records(list[Record]):
    """Records, and the same as a pandas frame where pandas is installed."""

    def frame(self) -> Any:
        """A row a record: its suite, labels, seed, status and metrics."""
        try:
            import pandas as pd  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise RecordError("a frame needs pandas: pip install pandas") from error

        rows = [
            {
                "id": record.id,
                "suite": record.suite,
                **record.labels,
                "seed": record.configuration["seed"],
                "status": record.status,
                **record.metrics,
            }
            for record in self
        ]
        return pd.DataFrame(rows)

"""Record of a cell: one JSON file with all that is needed to verify its result and to run it again."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from fflbench.errors import RecordError
from fflbench.records import validation
from fflbench.records.cell_configuration import GOALS, defense_name, is_configured_part, is_defense_configuration
from fflbench.records.npz_file import arrays_digest, unpack_arrays
from fflbench.untrusted_files import parse_json

LARGEST = 2**26
"""Most bytes of a record."""
DIGEST = "digest"
"""Key of a record's digest, by which a record that was altered or damaged is refused."""


def cell_id(configuration: Mapping[str, Any]) -> str:
    """Return a cell's id, a hash of its whole configuration; raise a `ValueError` if no record can hold that."""
    canonical = json.dumps(configuration, sort_keys=True, separators=(",", ":")).encode()
    parse_json(canonical)
    return hashlib.sha256(canonical).hexdigest()[:16]


def _content_digest(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class Record(BaseModel):
    """Record of one finished or failed cell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[2] = 2
    id: str = Field(pattern=r"^[0-9a-f]{16}$")
    """Hash of the configuration."""
    suite: str
    """Name of the suite's file."""
    title: str = ""
    """Title of the suite in its file."""
    labels: dict[str, str]
    """Names in the suite, by kind: task, defense, attack, ..."""
    sweep: dict[str, dict[str, Any]] = {}
    """Swept parameter by kind (task, attack, ...): its name, its value here and the label that all values share."""
    shared_by: dict[str, dict[str, Any]] = {}
    """Labels of other defenses with the same result, as far as the measure depends on them, with their sweeps."""
    configuration: dict[str, Any]
    """Everything that determines the result: parts with their parameters, and the seed."""
    status: Literal["done", "failed"]
    """Whether the cell finished or failed."""
    error: str = ""
    """Reason of a failure."""
    metrics: dict[str, bool | float | list[float | None] | None] = {}
    """Values by name of the metric."""
    facts: dict[str, Any] = {}
    """Facts that tables use, and flags for readers."""
    history: list[dict[str, Any]] = []
    """One item per round or step."""
    seconds: dict[str, float] = {}
    """Seconds by phase of the cell."""
    arrays: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    """Digest of its file of arrays, if there is one."""
    manifest: dict[str, Any]
    """Versions, commit, processor, threads and plugins."""
    _packed: bytes = PrivateAttr(b"")

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        others = [kind for kind in ("attack", "privacy-attack", "deviation") if kind in self.configuration]
        for kind in ("task", "measure", *others):
            if kind not in self.labels or not is_configured_part(self.configuration.get(kind)):
                raise ValueError(f"no {kind} with a label, a name and parameters")
        if "defense" not in self.labels or not is_defense_configuration(self.configuration.get("defense")):
            raise ValueError("no defense with a label and the name and parameters of each part")
        goals = self.configuration.get(GOALS, [])
        if not isinstance(goals, list) or not all(map(is_configured_part, goals)):
            raise ValueError("goals that are not attacks with a name and parameters")
        if type(self.configuration.get("seed")) is not int:
            raise ValueError("no seed")
        if self.id != cell_id(self.configuration):
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
        """Content of its file of arrays before it is written; empty in a record that was read."""
        return self._packed

    @classmethod
    def parse(cls, content: bytes, *, digest_required: bool = False) -> Self:
        """Return the record in a file's content, or raise a `ValueError` with the problem."""
        try:
            value = parse_json(content)
        except ValueError as error:
            raise ValueError(f"damaged: {error}") from error
        # Of everything else in the file. Other tools may omit it, but not for a leaderboard.
        stored = value.pop(DIGEST, None) if isinstance(value, dict) else None
        if stored not in (None, _content_digest(value)):
            raise ValueError("damaged: it is not what its digest says")
        if stored is None and digest_required:
            raise ValueError(f'no record that can be trusted: it has no "{DIGEST}"')
        try:
            record = cls.model_validate(value, strict=True)
        except ValidationError as error:
            raise ValueError(f"no record: {validation.first_problem(error)}") from error
        validation.check_record(record)
        return record

    def with_arrays(self, packed: bytes) -> Self:
        """Return the same record with the content of its file of arrays."""
        if packed:
            validation.check_arrays(self, unpack_arrays(packed))
        record = self.model_copy(update={"arrays": arrays_digest(packed)})
        record._packed = packed
        return record

    @property
    def reason(self) -> str:
        """Reason of its failure, in one line."""
        return (self.error.splitlines() or ["for no reason given"])[-1]

    def __str__(self) -> str:
        return f"{' · '.join(self.labels.values())} · seed {self.configuration['seed']}"

    def run_command(self, file: Path, *options: str) -> str:
        """Return the command that runs its cell alone, from its file."""
        plugins = self.manifest.get("plugins")
        named = [part for name in plugins for part in ("--plugin", str(name))] if isinstance(plugins, list) else []
        device = self.manifest.get("device")
        where = ["--device", str(device)] if device not in (None, "cpu") else []
        return shlex.join(["fflbench", "run", str(file), *options, *where, *named])

    def json_text(self, indent: int | None = 1) -> str:
        """Return the content of its file (one line without indent), or raise a `RecordError` if it is unreadable."""
        content = json.loads(json.dumps(self.model_dump(), allow_nan=False))
        separators = (",", ":") if indent is None else None
        text = json.dumps({**content, DIGEST: _content_digest(content)}, indent=indent, separators=separators) + "\n"
        if len(text) > LARGEST:
            raise RecordError(f"a record of {len(text):,} bytes is larger than {LARGEST:,}, the most that is read")
        try:
            self.parse(text.encode())
        except ValueError as error:
            raise RecordError(f"the result is {error}") from error
        return text

    def reproducible_content(self) -> dict[str, Any]:
        """Return the content that repeats to the bit, unless it measures time: no timings, manifest or title."""
        return self.model_dump(exclude={"seconds", "manifest", "title"})

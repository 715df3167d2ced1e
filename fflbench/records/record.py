"""What a result is: one JSON file a cell, with all that is needed to trust it and to run it again."""

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """One finished or failed cell."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    id: str = Field(pattern=r"^[0-9a-f]{16}$")
    suite: str
    labels: dict[str, str]
    configuration: dict[str, Any]
    status: Literal["done", "failed"]
    error: str = ""
    metrics: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    seconds: dict[str, float] = {}
    manifest: dict[str, Any]

    def json_text(self) -> str:
        """The content of its file."""
        return json.dumps(self.model_dump(), indent=1, allow_nan=False) + "\n"

    def result(self) -> dict[str, Any]:
        """What the configuration decides to the bit: everything but timings and manifest."""
        return self.model_dump(exclude={"seconds", "manifest"})


class Records(list[Record]):
    """Records, and the same as a pandas frame where pandas is installed."""

    def frame(self) -> Any:
        """A row a record: its suite, labels, seed, status and metrics."""
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

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

"""A measure as somebody else would write it, in one file: how long honest updates are, and how many are short."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Gt

from fflbench.measures import Context, Curve, Measure, Metric, Outcome, RecordFields, share
from fflbench.measures.one_round import aggregate, begin_chain
from fflbench.records.validation import PositiveCount
from fflbench.registration import measure


class _Facts(RecordFields):
    updates: PositiveCount


@measure("update-norm", title="Norm of updates")
@dataclass(frozen=True, kw_only=True)
class UpdateNorm(Measure):
    """Draw updates of a task's length, let a defense aggregate them, and look at their length."""

    needs_data = False
    section = "Norms"
    facts = _Facts
    metrics = (
        Metric(
            name="gradient_norm",
            title="length of the aggregate",
            meaning="Euclidean length of what the server adds to the model.",
            unit="m",
            digits=3,
            low=0.0,
            higher_is_better=False,
            headline=True,
            drift=1e-3,
        ),
        share(
            "short_updates",
            "short updates",
            "Share of the updates that are shorter than the mean of all.",
            headline=True,
            trials="updates",
            drift=0.01,
        ),
    )
    curves = (
        Curve(
            name="norms",
            x="update",
            lines={"norm": ""},
            title="length of each update",
        ),
    )

    scale: Annotated[float, Gt(0), "length of the updates"] = 1.0

    def run(self, context: Context) -> Outcome:
        columns = context.task.columns()
        rng = np.random.default_rng(context.seed)
        updates = rng.normal(scale=self.scale, size=(8, columns.count)).astype(np.float32)
        norms = np.linalg.norm(updates, axis=1)
        defense = begin_chain(context.defense, len(updates), columns, context.seed)
        weights = np.zeros(columns.count, np.float32)
        transcript = defense.transmit(0, weights, defense.select(0), updates)
        length = float(np.linalg.norm(aggregate(defense, transcript)))
        context.report_step(1)
        return Outcome(
            metrics={"gradient_norm": length, "short_updates": float(np.mean(norms < norms.mean()))},
            history=[{"update": place, "norm": float(norm)} for place, norm in enumerate(norms, start=1)],
            facts={"updates": len(norms)},
        )

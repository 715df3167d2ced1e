"""Norm of honest updates. An example."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fflbench.plugin import Context, Kind, Measure, Metric, Outcome, Task, measure


@measure("update-norm", title="Update norm")
class UpdateNorm(Measure):
    """Average norm of the updates of a few rounds."""

    attacked = Kind.ATTACK
    section = "Updates"
    metrics = (
        Metric(
            name="update_norm",
            title="update norm",
            meaning="Mean Euclidean norm of the updates that participants send.",
            digits=3,
            headline=True,
            drift=1e-4,
        ),
    )
    rounds: Annotated[int, Ge(1), "rounds to average over"] = 3

    def step_count(self, task: Task) -> int:
        return self.rounds

    def run(self, context: Context) -> Outcome:
        # Imported here, since it loads torch, which `fflbench list` does without.
        from fflbench.plugin import Federation

        federation = Federation(context.task, context.attack, context.defense, context.seed, device=context.device)
        norms = []
        for number in range(self.rounds):
            selected = federation.select()
            updates = federation.train(selected)
            norms += np.linalg.norm(updates, axis=1).tolist()
            federation.poison(selected, updates)
            federation.aggregate(federation.transmit(selected, updates))
            federation.round += 1
            context.report_step(number + 1)
        return Outcome(metrics={"update_norm": float(np.mean(norms))}, history=[], facts={})

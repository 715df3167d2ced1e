"""A rule with a memory, a selection of its own, and feedback. An example."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Lt

from fflbench.arrays.kernels import row_norms, weighted_mean
from fflbench.federation import Feedback, Rule, ServerSetting, View, require_rows
from fflbench.registration import rule
from fflbench.types import Indices, Vector


@rule("moderation", title="Moderation", participants=True)
class Moderation(Rule):
    """Select whoever sent the smallest updates so far, average all, and tell everybody by how much it was too loud."""

    decay: Annotated[float, Ge(0), Lt(1), "weight of earlier rounds in a participant's loudness"] = 0.5

    def begin(self, setting: ServerSetting) -> None:
        super().begin(setting)
        self.memory["loudness"] = np.zeros(setting.participants)

    def select(self, round: int, rng: np.random.Generator) -> Indices:
        # Ties, as in the first round, are broken at random.
        order = rng.permutation(self.setting.participants)
        quietest = order[np.argsort(self.memory["loudness"][order], kind="stable")]
        return np.sort(quietest[: self.setting.per_round])

    def aggregate(self, view: View, rng: np.random.Generator) -> tuple[Vector, Feedback]:
        require_rows(view)
        assert view.participants is not None
        norms = row_norms(view.rows[:, view.columns.parameters])
        loudness = self.memory["loudness"]
        loudness[view.participants] = self.decay * loudness[view.participants] + norms
        feedback = dict(zip(view.participants.tolist(), (norms.mean() - norms).tolist(), strict=True))
        return weighted_mean(view.rows, view.weights), feedback

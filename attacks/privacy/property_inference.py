"""Melis et al., Exploiting unintended feature leakage in collaborative learning, IEEE S&P 2019."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.privacy.properties import Informed, PropertyAttack, coins
from fflbench.registration import privacy_attack
from fflbench.types import Matrix


@privacy_attack("property-inference", title="Property inference", knows=["server view", "auxiliary data"])
class PropertyInference(PropertyAttack):
    """Train a random forest on updates of shadow participants with and without the property.

    Its features are the updates themselves, so nothing is converted, whatever the optimiser.
    """

    shadows: Annotated[int, Ge(10), "shadow participants"] = 500
    trees: Annotated[int, Ge(1), "trees of the forest"] = 200
    plain: Annotated[bool, "train on updates without the defense, as the FFL paper's server does"] = False

    @property
    def rehearses(self) -> bool:
        return not self.plain

    def prepare(self, informed: Informed) -> None:
        from sklearn.ensemble import RandomForestClassifier

        self.parameters = informed.parameters
        having = coins(-(-self.shadows // informed.people), informed.people, informed.rng)
        rows, truth = [], []
        for sight in informed.rehearse(having, plain=self.plain):
            for update in sight.observed.updates:
                rows += [update] * len(sight.observed.people)
                truth += [having[sight.group][who] for who in sight.observed.people]
        seed = int(informed.rng.integers(2**31))
        self.forest = RandomForestClassifier(self.trees, n_jobs=1, random_state=seed)
        self.forest.fit(self._features(np.stack(rows)), truth)

    def judge(self, updates: Matrix) -> npt.NDArray[np.float64]:
        scores: npt.NDArray[np.float64] = self.forest.predict_proba(self._features(updates))[:, 1]
        return scores

    def _features(self, updates: Matrix) -> Matrix:
        # A model that noise has ruined may overflow.
        return np.clip(np.nan_to_num(updates[:, self.parameters]), -1e6, 1e6)

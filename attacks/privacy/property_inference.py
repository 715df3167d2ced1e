"""Melis et al., Exploiting unintended feature leakage in collaborative learning, IEEE S&P 2019."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import Matrix, PropertyAttack, PropertyObserver, privacy_attack, property_attack


@privacy_attack("property-inference", title="Property inference", knows=["server view", "auxiliary data"])
class PropertyInference(PropertyAttack):
    """Train a random forest on updates of shadow participants with and without the property.

    Its features are the updates themselves, so nothing is converted, whatever the optimiser.
    """

    shadows: Annotated[int, Ge(10), "shadow participants"] = 500
    trees: Annotated[int, Ge(1), "trees of the forest"] = 200
    plain: Annotated[bool, "train on updates without the defense, as the FFL paper's server does"] = False

    @property
    def simulates_rounds(self) -> bool:
        return not self.plain

    def prepare(self, observer: PropertyObserver) -> None:
        from sklearn.ensemble import RandomForestClassifier

        self.parameters = observer.parameters
        labels = property_attack.random_property_labels(
            -(-self.shadows // observer.participants), observer.participants, observer.rng
        )
        rows, truth = [], []
        for shadow in observer.simulate_rounds(labels, without_defense=self.plain):
            for update in shadow.observed.updates:
                rows += [update] * len(shadow.observed.participants)
                truth += [labels[shadow.round][who] for who in shadow.observed.participants]
        seed = int(observer.rng.integers(2**31))
        self.forest = RandomForestClassifier(self.trees, n_jobs=1, random_state=seed)
        self.forest.fit(self._finite_parameters(np.stack(rows)), truth)

    def score(self, updates: Matrix) -> npt.NDArray[np.float64]:
        scores: npt.NDArray[np.float64] = self.forest.predict_proba(self._finite_parameters(updates))[:, 1]
        return scores

    def _finite_parameters(self, updates: Matrix) -> Matrix:
        # A model that noise has ruined may overflow.
        return np.clip(np.nan_to_num(updates[:, self.parameters]), -1e6, 1e6)

"""PoisonedFL. Xie, Fang, Gong, Model poisoning attacks to federated learning via multi-round consistency, CVPR 2025."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fflbench.plugin import Attack, AttackSetting, Known, Matrix, Vector, attack

from ._crafted_rows import Numbers, in_single_precision, is_new_round, last_global_change, send_without_data

CONFIDENCE = 0.99
"""Of the test whether the global model moved along the signs."""


@attack("poisonedfl", title="PoisonedFL", knows=[])
class PoisonedFL(Attack):
    r"""Push the global model along the same random signs s in all rounds, as fake participants without data.

    With the last change g of the global model and the row m that attackers sent then, they send

    $$ c\, \|g\| \frac{v}{\|v\|} \odot s, \quad v = \left| g - \frac{\|g\|}{\|m\|} m \right| $$

    After every window of rounds, c shrinks unless significantly more than half of the coordinates of the model moved
    along s meanwhile (coordinates that did not move count by their own sign). In their first round, attackers send
    zeros. Buffers are sent unchanged.
    """

    factor: Annotated[float, Gt(0), "first value of c"] = 8.0
    decay: Annotated[float, Gt(0), Le(1), "multiple by which c shrinks"] = 0.7
    smallest: Annotated[float, Ge(0), "value below which c does not shrink"] = 0.5
    window: Annotated[int, Ge(1), "rounds between tests"] = 50

    def begin(self, setting: AttackSetting) -> None:
        super().begin(setting)
        count = setting.columns.parameters.stop
        signs = np.where(setting.rng.random(count) < 0.5, -1, 1).astype(np.int8)
        self.memory |= {"signs": signs, "factor": np.array(self.factor), "sent": np.zeros(count, np.float32)}

    def poison_updates(self, known: Known) -> Matrix:
        if is_new_round(self.memory, known):
            change = last_global_change(self.memory, known).astype(np.float64)
            self._adapt_factor(known)
            length, sent = float(np.linalg.norm(change)), self.memory["sent"].astype(np.float64)
            magnitude = np.abs(change - length * normalised(sent))
            row = float(self.memory["factor"]) * length * normalised(magnitude) * self.memory["signs"]
            self.memory["sent"] = in_single_precision(row)
        return send_without_data(known, self.memory["sent"])

    def _adapt_factor(self, known: Known) -> None:
        """Test at the end of a window whether the model moved along the signs."""
        model = self.memory["model"]
        if "tested_model" in self.memory and known.round - self.memory["tested_round"] < self.window:
            return
        factor = float(self.memory["factor"]) * self.decay
        if "tested_model" in self.memory and factor >= self.smallest:
            agreeing = moved_along(self.memory["signs"], model, self.memory["tested_model"])
            if agreeing < significant_count(len(model)):
                self.memory["factor"] = np.array(factor)
        self.memory |= {"tested_model": model, "tested_round": np.array(known.round)}


def moved_along(signs: Vector, model: Vector, earlier: Vector) -> int:
    """Return how many coordinates of a model moved along the signs; those that did not move count by their own sign."""
    change = model - earlier
    return int((np.sign(np.where(change == 0, model, change)) == signs).sum())


def significant_count(d: int) -> int:
    """Return the quantile of the number of agreements between d random signs."""
    # Loaded here, since plugins are listed without it.
    from scipy.stats import binom

    return int(binom.ppf(CONFIDENCE, d, 0.5))


def normalised(vector: Numbers) -> Numbers:
    """Return a vector scaled to length 1; zeros stay."""
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector

"""Advantage of guesses between two worlds, and the lower bound on epsilon that their errors imply.

Under (epsilon, delta)-differential privacy every test has 1 - FNR <= exp(epsilon) FPR + delta, and the same with both
error rates exchanged (Kairouz et al., ICML 2015). Upper confidence bounds of both rates thus give a lower bound on
epsilon (Jagielski et al., NeurIPS 2020; Nasr et al., IEEE S&P 2021).
"""

import math
from dataclasses import dataclass

from fflbench.report.statistics import clopper_pearson_interval


@dataclass(frozen=True)
class GuessCounts:
    """Numbers of guesses in two worlds, of which the first counts as positive."""

    true_positives: int
    positives: int
    """Trials in the first world."""
    false_positives: int
    negatives: int
    """Trials in the second world."""

    @property
    def trials(self) -> int:
        """Number of all trials."""
        return self.positives + self.negatives

    @property
    def correct(self) -> int:
        """Number of right guesses."""
        return self.true_positives + self.negatives - self.false_positives

    @property
    def advantage(self) -> float:
        """Twice the share of right guesses, minus one: 0 is chance, 1 certainty."""
        return 2 * self.correct / self.trials - 1

    def advantage_interval(self) -> tuple[float, float]:
        """Return the exact 95% interval of the advantage (Clopper and Pearson, Biometrika 1934)."""
        low, high = clopper_pearson_interval(self.correct, self.trials)
        return 2 * low - 1, 2 * high - 1

    def epsilon_lower_bound(self, delta: float) -> float:
        r"""Return a lower bound on epsilon that holds with 95% confidence, 0 if the errors imply none.

        $$ \varepsilon \ge \max\left( \ln\frac{1 - \delta - \overline{\mathrm{FNR}}}{\overline{\mathrm{FPR}}},
           \ln\frac{1 - \delta - \overline{\mathrm{FPR}}}{\overline{\mathrm{FNR}}} \right) $$

        Both rates are bounded from above, each with 97.5% confidence, so that both bounds hold with 95%.
        """
        # The upper ends of 95% intervals, which are exceeded with 2.5%.
        _, fpr = clopper_pearson_interval(self.false_positives, self.negatives)
        _, fnr = clopper_pearson_interval(self.positives - self.true_positives, self.positives)
        ratios = (1 - delta - fnr) / fpr, (1 - delta - fpr) / fnr
        return max(0.0, *(math.log(ratio) for ratio in ratios if ratio > 0)) if max(ratios) > 0 else 0.0

    def largest_lower_bound(self, delta: float) -> float:
        """Return the largest lower bound that so many trials can give: that of guesses without an error."""
        return GuessCounts(self.positives, self.positives, 0, self.negatives).epsilon_lower_bound(delta)

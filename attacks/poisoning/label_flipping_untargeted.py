"""Label flipping of all classes. Biggio et al., ICML 2012; Fang, Cao, Jia, Gong, USENIX Security 2020 (mirror)."""

from typing import Annotated, Literal

import numpy as np

from fflbench.plugin import Attack, Examples, Task, attack


@attack("label-flipping-untargeted", title="Label flipping of all classes", knows=["own data"])
class LabelFlippingUntargeted(Attack):
    """Train on data in which every example has the label of another class, to make the whole model worse.

    Mirrored, class c of C becomes C - 1 - c (the middle one of an odd number stays); at random, it becomes any other
    class, drawn anew in every round; all to one, every class becomes class 0.
    """

    mapping: Annotated[Literal["mirror", "random", "all-to-one"], "how labels are replaced"] = "mirror"

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        count = len(task.classes)
        if self.mapping == "mirror":
            return Examples(examples.x, count - 1 - examples.y)
        if self.mapping == "all-to-one":
            return Examples(examples.x, np.zeros_like(examples.y))
        return Examples(examples.x, (examples.y + rng.integers(1, count, len(examples))) % count)

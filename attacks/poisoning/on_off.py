"""On-off attack. Chae, DiPippo, Sun, Trust management for defending on-off attacks, IEEE TPDS 2015."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from fflbench.plugin import (
    AttackWrapper,
    Examples,
    Known,
    LocalTraining,
    Matrix,
    ParameterError,
    Task,
    Vector,
    attack,
)


@attack("on-off", title="On-off", knows=["own data"])
class OnOff(AttackWrapper):
    """Attack in some rounds only, and regain trust in the others by honest updates: the last rounds of every period.

    Lewis, Varadharajan and Noman (JMLR 2023) use it against defenses of federated learning. It begins with honest
    rounds, unless duty equals period: a single call of `fflbench.poison` sends honest rows.
    """

    period: Annotated[int, Ge(1), "rounds after which it repeats"] = 10
    duty: Annotated[int, Ge(1), "rounds of each period in which attackers attack, its last"] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.duty > self.period:
            raise ParameterError(f'attack "on-off": duty = {self.duty} must be at most period = {self.period}')

    def is_on(self, round: int) -> bool:
        """Return whether attackers attack in a round."""
        return round % self.period >= self.period - self.duty

    def overrides(self, hook: str) -> bool:
        # Its own hooks only choose when those of the wrapped attack are called.
        return hook == "poison_updates" or self.wrapped.overrides(hook)

    def poison_data(self, examples: Examples, task: Task, round: int, rng: np.random.Generator) -> Examples:
        return super().poison_data(examples, task, round, rng) if self.is_on(round) else examples

    def train(self, local: LocalTraining) -> Vector:
        return super().train(local) if self.is_on(local.round) else local.train()

    def poison_updates(self, known: Known) -> Matrix:
        return super().poison_updates(known) if self.is_on(known.round) else known.updates

"""Mixing alone (Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022),
combined with another rule, as the paper's section on security says can be done.
"""

from typing import Annotated, Literal

from fflbench import registry
from fflbench.federation import ServerView
from fflbench.federation.defense import Setting
from fflbench.registry import Kind, defense
from fflbench.types import Vector

from ._mixing import Mixing


@defense("ffl-mixing", title="FFL mixing", version=2)
class FFLMixing(Mixing):
    """Mix updates in pairs at random, and leave the mixed ones to a rule that works on each coordinate."""

    rule: Annotated[Literal["median", "trimmed-mean"], "what the server does with mixed updates"] = "median"

    def begin(self, setting: Setting) -> None:
        super().begin(setting)
        self.inner = registry.get(Kind.DEFENSE, self.rule).create()
        self.inner.begin(setting)

    def validate(self, per_round: int) -> None:
        super().validate(per_round)
        registry.get(Kind.DEFENSE, self.rule).create().validate(per_round)

    def assumed(self, selected: int, n: int) -> int | None:
        f: int | None = self.inner.assumed(selected, n)
        return f

    def flags(self) -> list[str]:
        flags: list[str] = self.inner.flags()
        return flags

    def aggregate(self, view: ServerView) -> Vector:
        aggregate: Vector = self.inner.aggregate(view) * self.unscaled(view)
        return aggregate

"""A little is enough. Baruch, Baruch, Goldberg, A little is enough, NeurIPS 2019."""

from statistics import NormalDist
from typing import Annotated, Literal

from annotated_types import Ge

from fflbench.plugin import Known, Matrix, attack

from ._crafted_rows import (
    AttackByKnowledge,
    count_round,
    deviation_of_rows,
    known_rows,
    mean_of_rows,
    send_same_row,
    void_rounds_flag,
)

VOID = 0.1
"""Number of standard deviations below which the attack hardly differs from sending the mean."""


@attack(
    "a-little-is-enough",
    title="A little is enough",
    knows=["own data", "attackers' updates", "honest updates"],
)
class ALittleIsEnough(AttackByKnowledge):
    r"""Move every coordinate of the mean by so few standard deviations that enough honest values lie further out.

    $$ \mu - z \sigma, \quad z = \Phi^{-1}\left(\frac{n - m - s}{n - m}\right), \quad s = \lfloor n/2 + 1 \rfloor - m $$

    With m attackers among n participants, s honest supporters make a majority. For few attackers that z is 0 (2 of 10)
    or less, which counts as 0: then they send the mean, and tables say so. Attackers in the paper know only their own
    updates (partial knowledge). Buffers stay as trained.
    """

    z: Annotated[
        Literal["paper"] | Annotated[float, Ge(0)], 'standard deviations from the mean, or "paper" for the formula'
    ] = "paper"

    def poison_updates(self, known: Known) -> Matrix:
        z = largest_z(known.selected, len(known.participants)) if self.z == "paper" else self.z
        count_round(self.memory, void=z < VOID)
        rows = known_rows(known, self.knowledge)
        return send_same_row(known, mean_of_rows(rows) - z * deviation_of_rows(rows))

    def flags(self) -> list[str]:
        return void_rounds_flag(self.memory, f"attackers sent the mean (a-little-is-enough with z < {VOID})")


def largest_z(n: int, m: int) -> float:
    """Return the paper's z, at least 0; attackers who are a majority already count one supporter."""
    supporters = max(n // 2 + 1 - m, 1)
    share = (n - m - supporters) / max(n - m, 1)
    return NormalDist().inv_cdf(share) if share > 0.5 else 0.0

"""Poisoned updates as long as honest ones. After Sun et al., 2019, whose attackers keep to the server's bound."""

from typing import Annotated, Literal

import numpy as np

from fflbench.plugin import AttackWrapper, Indices, Known, Matrix, attack, row_norms

from ._crafted_rows import finite_honest_updates, in_single_precision


@attack("norm-matched", title="Norm-matched", knows=["own data", "honest updates"])
class NormMatched(AttackWrapper):
    """Scale every poisoned update to the norm of honest ones, so that no bound on norms tells them apart."""

    norm: Annotated[
        Literal["honest", "own"], "median norm of the honest updates, or the norm of an attacker's own before poisoning"
    ] = "honest"

    @property
    def needed_knowledge(self) -> tuple[str, ...]:
        unused = {"honest updates"} - set(self.wrapped.needed_knowledge) if self.norm == "own" else set()
        return tuple(each for each in super().needed_knowledge if each not in unused)

    def change_rows(self, known: Known, participants: Indices, rows: Matrix) -> Matrix:
        parameters, changed = known.columns.parameters, rows.copy()
        own = known.updates[np.isin(known.participants, participants), parameters]
        wanted = row_norms(own)
        if self.norm == "honest" and len(honest := finite_honest_updates(known)):
            wanted[:] = np.median(row_norms(honest[:, parameters]))
        sent = row_norms(rows[:, parameters])
        factors = np.divide(wanted, sent, out=np.zeros_like(sent), where=sent > 0)
        changed[:, parameters] = in_single_precision(factors[:, None] * rows[:, parameters])
        return changed

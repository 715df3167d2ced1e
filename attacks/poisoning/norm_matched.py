"""Poisoned updates as long as honest ones. After Sun et al., 2019, whose attackers keep to the server's bound."""

from typing import Annotated, Literal

import numpy as np

from fflbench.plugin import AddedLater, AttackWrapper, Indices, Known, Matrix, ParameterError, attack, row_norms

from ._crafted_rows import finite_honest_updates, in_single_precision


@attack("norm-matched", title="Norm-matched", knows=["own data", "honest updates"])
class NormMatched(AttackWrapper):
    """Scale every poisoned update to the norm of honest ones, so that no bound on norms tells them apart.

    With `last_layer = "honest"` the last layer, by which some defenses judge directions, is that of the own update as
    trained, and the rest is scaled so that the whole has the norm; where that layer alone is longer, the rest is zero.
    """

    norm: Annotated[
        Literal["honest", "own", "poisoned"],
        "median norm of the honest updates, norm of an attacker's own before poisoning, or that of the poisoned update",
    ] = "honest"
    last_layer: Annotated[
        Literal["poisoned", "honest"], AddedLater(), "last layer that attackers send: poisoned, or as trained"
    ] = "poisoned"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.norm, self.last_layer) == ("poisoned", "poisoned"):
            raise ParameterError(
                'attack "norm-matched": norm = "poisoned" needs an honest last layer to change anything'
            )

    @property
    def needed_knowledge(self) -> tuple[str, ...]:
        unused = {"honest updates"} - set(self.wrapped.needed_knowledge) if self.norm != "honest" else set()
        return tuple(each for each in super().needed_knowledge if each not in unused)

    def change_rows(self, known: Known, participants: Indices, rows: Matrix) -> Matrix:
        parameters, last, changed = known.columns.parameters, known.columns.last_layer, rows.copy()
        own = known.updates[np.isin(known.participants, participants)]
        wanted = row_norms((rows if self.norm == "poisoned" else own)[:, parameters])
        if self.norm == "honest" and len(honest := finite_honest_updates(known)):
            wanted[:] = np.median(row_norms(honest[:, parameters]))
        if self.last_layer == "honest":
            changed[:, last] = 0
            wanted = np.sqrt(np.maximum(wanted**2 - row_norms(own[:, last]) ** 2, 0))
        sent = row_norms(changed[:, parameters])
        factors = np.divide(wanted, sent, out=np.zeros_like(sent), where=sent > 0)
        changed[:, parameters] = in_single_precision(factors[:, None] * changed[:, parameters])
        if self.last_layer == "honest":
            changed[:, last] = own[:, last]
        return changed

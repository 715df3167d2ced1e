"""Attack on pads from a weak generator, from the half of each pad that the exchange reveals to a partner.

It shows why FFL's pads must come from a cipher. Our own attack, by the recurrence of Matsumoto and Nishimura (Mersenne
Twister, ACM TOMACS 1998).
"""

import numpy as np

from fflbench.plugin import privacy_attack

from .mersenne_twister_recovery import recover_outputs
from .partner_attack_base import InitiatorView, PartnerAttack, RecoveredUpdate


@privacy_attack("weak-generator", title="Weak generator", knows=["a participant's view"])
class WeakGeneratorAttack(PartnerAttack):
    r"""Solve for a Mersenne Twister behind both pads, and remove them.

    `whole ^ kept` is the swapped half of the update under $r$, and so $r$ itself where nothing is swapped; `kept` is
    the other half under $\rho$, and $\rho$ itself where the swapped half was. So half of either pad is known.
    """

    def recover_update(self, view: InitiatorView) -> RecoveredUpdate:
        swapped = view.mask == 1
        words, certain = np.zeros_like(view.whole), np.zeros(len(view.whole), bool)
        for padded, hidden in ((view.whole ^ view.kept, swapped), (view.kept, ~swapped)):
            solved = recover_outputs(padded, ~hidden)
            if solved is None:
                # No twister gives these pads, so there is nothing to remove.
                words[hidden] = padded[hidden]
                continue
            pad, known = solved
            words[hidden] = (padded ^ pad)[hidden]
            certain[hidden] = known[hidden]
        return RecoveredUpdate(words, certain)

"""Attack on pads from a weak generator, from the half of each pad that the exchange reveals to a partner.

It shows why FFL's pads must come from a cipher. Our own attack, by the recurrence of Matsumoto and Nishimura (Mersenne
Twister, ACM TOMACS 1998).
"""

import numpy as np

from fflbench.registration import privacy_attack

from .mersenne_twister import solve
from .partner import Heard, PartnerAttack, Unmasked


@privacy_attack("weak-generator", title="Weak generator", knows=["a participant's view"])
class WeakGenerator(PartnerAttack):
    r"""Solve for a Mersenne Twister behind both pads, and remove them.

    `whole ^ kept` is the swapped half of the update under $r$, and so $r$ itself where nothing is swapped; `kept` is
    the other half under $\rho$, and $\rho$ itself where the swapped half was. So half of either pad is known.
    """

    def unmask(self, heard: Heard) -> Unmasked:
        swapped = heard.mask == 1
        words, sure = np.zeros_like(heard.whole), np.zeros(len(heard.whole), bool)
        for padded, hidden in ((heard.whole ^ heard.kept, swapped), (heard.kept, ~swapped)):
            solved = solve(padded, ~hidden)
            if solved is None:
                # No twister gives these pads, so there is nothing to remove.
                words[hidden] = padded[hidden]
                continue
            pad, known = solved
            words[hidden] = (padded ^ pad)[hidden]
            sure[hidden] = known[hidden]
        return Unmasked(words, sure)

"""Attack that takes received messages for the partner's update, without removing pads.

Jebreel et al., IEEE TNNLS 2022, claim that a partner's view of an honest exchange shows nothing.
"""

import numpy as np

from fflbench.plugin import privacy_attack

from .partner_attack_base import InitiatorView, PartnerAttack, RecoveredUpdate


@privacy_attack("partner-view", title="Partner's view", knows=["a participant's view"])
class NaivePartnerAttack(PartnerAttack):
    """Take received messages for the partner's update: `whole ^ kept` where fragments are swapped, elsewhere `kept`.

    Without pads that is the partner's update. Under pads as good as random bits it is right in half of all bits.
    """

    def recover_update(self, view: InitiatorView) -> RecoveredUpdate:
        words = np.where(view.mask == 1, view.whole ^ view.kept, view.kept)
        return RecoveredUpdate(words, np.ones(len(words), bool))

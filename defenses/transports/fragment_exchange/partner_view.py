"""View of a partner in an honest exchange (Jebreel et al., IEEE TNNLS 2022, who claim that it shows nothing)."""

import numpy as np

from fflbench.registration import privacy_attack

from .partner import Heard, PartnerAttack, Unmasked


@privacy_attack("partner-view", title="Partner's view", knows=["a participant's view"])
class PartnerView(PartnerAttack):
    """Take received messages for the partner's update: `whole ^ kept` where fragments are swapped, elsewhere `kept`.

    Without pads that is the partner's update. Under pads as good as random bits it is right in half of all bits.
    """

    def unmask(self, heard: Heard) -> Unmasked:
        words = np.where(heard.mask == 1, heard.whole ^ heard.kept, heard.kept)
        return Unmasked(words, np.ones(len(words), bool))

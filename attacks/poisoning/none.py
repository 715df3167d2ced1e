"""No attack: everybody is honest."""

from fflbench.federation import Attack
from fflbench.registry import attack


@attack("none", title="No attack", knows=[])
class NoAttack(Attack):
    """Leave everything as it is."""

    share = 0.0

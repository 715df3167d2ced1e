"""No attack: everybody is honest."""

from fflbench.plugin import Attack, attack


@attack("none", title="No attack", knows=[])
class NoAttack(Attack):
    """Leave everything as it is."""

    share = 0.0

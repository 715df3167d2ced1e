import pytest

from fflbench import registry
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.registration import attack
from fflbench.registry import Kind


def named(given):
    """The name and the parameters of a plugin or chain that is given as a name, or as both."""
    return given if isinstance(given, tuple) else (given, {})


@pytest.fixture
def federation():
    def build(task="digits-mlp", attack="none", defense="fedavg", seed=0, **fields):
        (attack, attack_parameters), (defense, defense_parameters) = named(attack), named(defense)
        return Federation(
            registry.get(Kind.TASK, task).create(**fields),
            registry.get(Kind.ATTACK, attack).create(**attack_parameters),
            chain.defense(defense, **defense_parameters),
            seed,
        )

    return build


@pytest.fixture
def sends(own_registry):
    """An attack that fills its update with one value, or plants it in one place."""

    @attack("sends", title="Sends a value", knows=[])
    class Sends(Attack):
        """Sends one value."""

        value: float = 0.0
        everywhere: bool = True

        def poison_updates(self, known):
            known.updates[:, slice(None) if self.everywhere else 7] = self.value
            return known.updates

    return lambda value, everywhere=True: Sends(value=value, everywhere=everywhere, share=0.1)

import pytest

from fflbench import registry
from fflbench.federation import chain
from fflbench.federation.rounds import Federation
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

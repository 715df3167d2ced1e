import pytest

from fflbench import registry
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind


def create(kind, given):
    """A plugin by its name, or by name and parameters."""
    name, parameters = given if isinstance(given, tuple) else (given, {})
    return registry.get(kind, name).create(**parameters)


@pytest.fixture
def federation():
    def build(task="digits-mlp", attack="none", defense="fedavg", seed=0, **fields):
        return Federation(
            registry.get(Kind.TASK, task).create(**fields),
            create(Kind.ATTACK, attack),
            create(Kind.DEFENSE, defense),
            seed,
        )

    return build

import pytest

from fflbench.crypto.entropy import Entropy
from fflbench.crypto.seal import OpeningKey


@pytest.fixture(scope="session")
def key():
    return OpeningKey(Entropy(seed=0))


@pytest.fixture(scope="session")
def other_key():
    return OpeningKey(Entropy(seed=1))

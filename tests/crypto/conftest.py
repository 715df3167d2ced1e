import pytest

from fflbench.crypto.entropy import Entropy
from fflbench.crypto.rsa_oaep import ServerPrivateKey


@pytest.fixture(scope="session")
def key():
    return ServerPrivateKey(Entropy(seed=0))


@pytest.fixture(scope="session")
def other_key():
    return ServerPrivateKey(Entropy(seed=1))

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.parties import Acceptor, ExchangeServer, Initiator

from fflbench.crypto.diffie_hellman import DIFFIE_HELLMAN_GROUPS
from fflbench.crypto.entropy import Entropy


@pytest.fixture(scope="session")
def server():
    return ExchangeServer(Entropy(seed=0))


@pytest.fixture(scope="session")
def stranger():
    return ExchangeServer(Entropy(seed=1))


@pytest.fixture
def parties(server):
    """Two partners with updates of their own, and ways to make them differ."""

    def make(size=1000, seed=0, round=3, group="ffdhe2048", updates=None, entropy=None):
        rng = np.random.default_rng(seed)
        one, other = updates or (rng.normal(size=size).astype(np.float32) for _ in range(2))
        common = {
            "round": round,
            "server": server.public,
            "entropy": entropy or Entropy(seed),
            "group": DIFFIE_HELLMAN_GROUPS[group],
        }
        return Initiator(one, name=5, partner=9, **common), Acceptor(other, name=9, partner=5, **common)

    return make

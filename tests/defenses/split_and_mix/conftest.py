import pytest
from fflbench.defenses.transports.split_and_mix import transport

from fflbench.crypto.diffie_hellman import DiffieHellmanGroup

SAFE_PRIME = 2**64 - 8489
SMALL = DiffieHellmanGroup("small", SAFE_PRIME, (SAFE_PRIME - 1) // 2, 2, secret_bytes=32)


@pytest.fixture(autouse=True)
def small_group(request, monkeypatch):
    """Powers of 64 bits, since those of 2,048 take most of a round; a test that asks for `real_groups` has those."""
    if "real_groups" not in request.fixturenames:
        monkeypatch.setattr(transport, "DIFFIE_HELLMAN_GROUPS", {"ffdhe2048": SMALL, "rfc5114": SMALL})


@pytest.fixture
def real_groups():
    """The groups that are shipped."""

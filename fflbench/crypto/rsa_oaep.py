"""Encryption of seeds for the server: RSA with 3,072 bits, OAEP with SHA-256."""

from collections.abc import Callable
from itertools import count

from Crypto.Cipher import PKCS1_OAEP
from Crypto.Hash import SHA256
from Crypto.PublicKey import RSA

from fflbench.crypto.entropy import Entropy
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.keystream import SEED_BYTES

BITS = 3072
ENCRYPTED_SEED_BYTES = BITS // 8
"""Bytes of an encrypted seed."""


class ServerPublicKey:
    """Public key of the server."""

    def __init__(self, exported: bytes) -> None:
        self.exported = exported
        self._key = RSA.import_key(exported)

    def encrypt(self, seed: bytes, entropy: Entropy, round: int, *purpose: str | int) -> bytes:
        """Encrypt a seed for the server, which can decrypt it as one of this round only."""
        randomness = _random_byte_source(entropy, "oaep", round, *purpose)
        return PKCS1_OAEP.new(self._key, SHA256, label=_oaep_label(round), randfunc=randomness).encrypt(seed)


class ServerPrivateKey:
    """Private key of the server, which is never written or shown."""

    def __init__(self, entropy: Entropy) -> None:
        self._key = RSA.generate(BITS, randfunc=_random_byte_source(entropy, "server key"))
        self.public = ServerPublicKey(self._key.public_key().export_key("DER"))

    def decrypt(self, encrypted: bytes, round: int) -> bytes:
        """Decrypt a seed that was encrypted for this round, or raise an error."""
        try:
            seed = PKCS1_OAEP.new(self._key, SHA256, label=_oaep_label(round)).decrypt(encrypted)
        except (ValueError, TypeError) as error:
            raise ProtocolError("a sealed seed that does not open") from error
        if len(seed) != SEED_BYTES:
            raise ProtocolError("a sealed seed of the wrong length")
        return seed


def _oaep_label(round: int) -> bytes:
    """Return the OAEP label, without which a seed of one round could be submitted again in another."""
    return f"fflbench round {round}".encode()


def _random_byte_source(entropy: Entropy, *purpose: str | int) -> Callable[[int], bytes]:
    """Return a source of randomness for pycryptodome: a function of a number of bytes that never repeats itself."""
    calls = count()
    return lambda size: entropy.random_bytes(size, *purpose, next(calls))

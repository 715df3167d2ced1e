"""Cryptographic primitives: Diffie-Hellman groups, key derivation, keystreams, RSA encryption of seeds."""

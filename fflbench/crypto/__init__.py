"""Cryptographic primitives: groups, key derivation, pads, sealed seeds."""

"""Errors of cryptographic protocols. No error text holds anything secret."""


class ProtocolError(Exception):
    """Message that must not be accepted: the exchange ends."""

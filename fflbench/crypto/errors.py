"""Errors of cryptographic protocols. No error text holds anything secret."""


class ProtocolError(Exception):
    """A message that must not be accepted: the exchange ends."""

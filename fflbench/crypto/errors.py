"""What can go wrong in an exchange. No error text holds anything secret."""


class ExchangeError(Exception):
    """A message that must not be believed: the exchange ends."""

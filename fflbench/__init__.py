"""Robustness, privacy and cost of federated-learning defenses, measured on the same work."""

__version__ = "0.1.0"

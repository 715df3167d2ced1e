"""Federations played to their end."""

from fflbench.measures.robustness import outcome_of_federation


def finished(federation, tell=lambda _: None):
    """Play all rounds that are left, and return the outcome that a cell's record would hold."""
    federation.run(tell)
    return outcome_of_federation(federation)

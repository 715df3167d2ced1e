"""Privacy: observations of a round, and what attacks learn from them."""

from fflbench.privacy.attack import Guess, Observed, PrivacyAttack

__all__ = ["Guess", "Observed", "PrivacyAttack"]

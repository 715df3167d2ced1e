"""Privacy: what can be rebuilt from what a defense lets the server, or a partner, see."""

from fflbench.privacy.attack import Guess, Observed, PrivacyAttack

__all__ = ["Guess", "Observed", "PrivacyAttack"]

"""Privacy: observations of a round, attacks on them, and the quality of their results."""

from fflbench.privacy.reconstruction_attack import ObservedGradients, ReconstructedExamples, ReconstructionAttack

__all__ = ["ObservedGradients", "ReconstructedExamples", "ReconstructionAttack"]

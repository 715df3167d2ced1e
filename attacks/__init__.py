"""Attacks, one file each; imported as `fflbench.attacks`, and registered by being in this folder."""

"""Defenses, one file each; imported as `fflbench.defenses`, and registered by being in this folder."""

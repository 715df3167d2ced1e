"""What stands against attackers, a file a defense: imported as `fflbench.defenses`, and found by being here."""

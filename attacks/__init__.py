"""What attackers do, a file an attack: imported as `fflbench.attacks`, and found by being here."""

"""Cost: what defenses take in time, memory and bytes. Its measures are found by being here."""

"""Attacks on the model: participants who send poisoned updates."""

"""Poisoning attacks: participants who send poisoned updates."""

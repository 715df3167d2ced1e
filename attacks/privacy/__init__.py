"""Attacks on people's data: what a curious server or participant learns."""

"""Transports: how updates travel from participants to the server, and what of them it sees."""

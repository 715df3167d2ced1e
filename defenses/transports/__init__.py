"""Transports: how updates travel from participants to the server, and what the server sees of them."""

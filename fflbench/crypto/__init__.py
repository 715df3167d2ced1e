"""Cryptography of the fragment exchange: key agreement, pads, masks, sealed seeds, and the messages themselves."""

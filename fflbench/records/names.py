"""Names of files and folders, made of texts that anyone may have written."""

import re

LONGEST = 100
"""Bytes of a file's name, without what is put before and behind it."""


def slug(text: str) -> str:
    """Return a text as the name of a file, whatever it holds, cut by bytes as file systems count."""
    name = re.sub(r"[^\w.]+", "-", text).strip("-.").lower()
    return name.encode()[:LONGEST].decode(errors="ignore").strip("-.") or "unnamed"

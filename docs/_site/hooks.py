"""Hooks of the documentation site: references of all public names, and pages written for GitHub."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PUBLIC_NAMES = re.compile(r"^<!-- public names of ([\w.]+) -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
"""Place of a page where the public names of a module are documented, from their docstrings; GitHub shows a sentence."""

LINK = re.compile(r"\[[^\]]*\]\(\.\./([^)]+)\)")
"""Link to a file outside docs/, which is not part of the site."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text as MkDocs needs it, with empty lines around code as well."""
    pieces = re.split(r"(^```.*?^```\n)", markdown, flags=re.MULTILINE | re.DOTALL)
    pieces[::2] = map(_from_github, pieces[::2])
    return PUBLIC_NAMES.sub(lambda found: reference(found[1]), "\n".join(pieces))


def _from_github(text: str) -> str:
    """Return text with paths instead of links outside docs/, and an empty line before every list."""
    text = LINK.sub(lambda found: f"`{found[1]}`", text)
    return re.sub(r"^((?![-#|\s]|\d+\. ).*\S.*)\n(?=- |1\. )", r"\1\n\n", text, flags=re.MULTILINE)


def reference(module: str) -> str:
    """Return Markdown in which mkdocstrings documents each name in a module's `__all__`, under its group's heading."""
    return "\n\n".join(
        f"## {text}" if heading else f"::: {module}.{text}" for heading, text in groups_and_names(module)
    )


def groups_and_names(module: str) -> Iterator[tuple[bool, str]]:
    """Yield the names of a module's `__all__` in their order, and the comments that head groups of them (True)."""
    file = ROOT.joinpath(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    with tokenize.open(file) as source:
        tokens = tokenize.generate_tokens(source.readline)
        next(token for token in tokens if token.string == "__all__")
        for token in tokens:
            if token.string == "]":
                return
            if token.type == tokenize.COMMENT and not token.string.startswith("# noqa"):
                yield True, token.string.removeprefix("# ")
            if token.type == tokenize.STRING and not token.string.startswith('"_'):
                yield False, token.string.strip('"')

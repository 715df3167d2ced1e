"""Digest of a plugin's source, by which records know the code that made them."""

import ast
import functools
import hashlib
import sys
from pathlib import Path
from types import ModuleType

BUILT_IN = "fflbench"
"""The package whose plugins need no digest: their results versions are raised by hand and held by tests."""


def source_digest(module: ModuleType) -> str:
    """Return the digest of an outside module's source, or of its whole package; empty for built-ins.

    Comments and layout do not count. A package counts with all its modules, since a plugin may call any of them. Where
    there is no source to read, as in a notebook, the digest is empty.
    """
    if module.__name__.partition(".")[0] == BUILT_IN:
        return ""
    package = _regular_package(module)
    if package is not None:
        folder = Path(str(package.__file__)).parent
        return _of_files(folder, *sorted(folder.rglob("*.py")))
    file = Path(getattr(module, "__file__", None) or "")
    return _of_files(file, file) if file.is_file() else ""


def _regular_package(module: ModuleType) -> ModuleType | None:
    """Return the outermost package around a module that is not a namespace shared with other distributions."""
    names = module.__name__.split(".")
    for depth in range(1, len(names) + 1):
        around = sys.modules.get(".".join(names[:depth]))
        if getattr(around, "__path__", None) is not None and getattr(around, "__file__", None):
            return around
    return None


def _of_files(root: Path, *files: Path) -> str:
    # Once for all plugins of a package, but anew where a file was changed and its module reloaded.
    seen = [(file.relative_to(root).as_posix(), file, file.stat().st_mtime_ns) for file in files if file.is_file()]
    return _digest(tuple(seen))


@functools.cache
def _digest(files: tuple[tuple[str, Path, int], ...]) -> str:
    found = hashlib.sha256()
    for name, file, _ in files:
        for part in (name.encode(), _without_layout(file.read_bytes())):
            found.update(len(part).to_bytes(8) + part)
    return found.hexdigest()[:16]


def _without_layout(source: bytes) -> bytes:
    """Return source written anew from its syntax tree; what is not Python counts byte by byte."""
    try:
        return ast.unparse(ast.parse(source)).encode("utf-8", "surrogatepass")
    except (SyntaxError, ValueError, RecursionError):
        return source

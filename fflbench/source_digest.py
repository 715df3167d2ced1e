"""Digest of a plugin's source, by which records identify the code that made them."""

import ast
import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

BUILT_IN = "fflbench"
"""Package whose plugins need no digest: their results versions are raised by hand and checked by tests."""


def source_digest(module: ModuleType) -> str:
    """Return the digest of an outside module's source and of its own modules that it may call; empty for built-ins.

    Comments and layout do not count. A module of a package counts with the whole package, a loose file with the modules
    beside it that it imports. Where there is no source to read, as in a notebook, the digest is empty.
    """
    file = Path(getattr(module, "__file__", None) or "")
    if module.__name__.partition(".")[0] == BUILT_IN or not file.is_file():
        return ""
    root = file.resolve().parent
    if not (root / "__init__.py").is_file():
        return _digest_current_files(root, sorted(_files_imported_by(file.resolve())))
    while (root.parent / "__init__.py").is_file():
        root = root.parent
    return _digest_current_files(root, sorted(_python_files_of_package(root)))


def _python_files_of_package(package: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(package):
        # Hidden folders and virtual environments inside it hold other code.
        inner[:] = [name for name in inner if name[0] != "." and not (Path(folder) / name / "pyvenv.cfg").exists()]
        yield from (Path(folder) / name for name in files if name.endswith(".py"))


def _files_imported_by(file: Path) -> set[Path]:
    """Return a file and all modules in its folder that it imports, directly or through one another."""
    imported: set[Path] = set()
    waiting = {file}
    while waiting:
        each = waiting.pop()
        imported.add(each)
        for name in _imported_module_names(each):
            beside = file.parent / name
            more = (
                _python_files_of_package(beside)
                if (beside / "__init__.py").is_file()
                else iter([beside.with_suffix(".py")])
            )
            waiting |= {module for module in more if module.is_file()} - imported
    return imported


def _imported_module_names(file: Path) -> set[str]:
    """Return the names of the modules, without their submodules, that a file imports."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in names} - {""}


def _digest_current_files(root: Path, files: list[Path]) -> str:
    # Cached for all plugins of a package until a file changes and its module is reloaded.
    seen = [(file.relative_to(root).as_posix(), file, file.stat().st_mtime_ns) for file in files if file.is_file()]
    # The name of a single file does not count.
    return _digest_files(tuple(seen if len(seen) > 1 else [("", *each[1:]) for each in seen]))


@functools.cache
def _digest_files(files: tuple[tuple[str, Path, int], ...]) -> str:
    digest = hashlib.sha256()
    for name, file, _ in files:
        for part in (name.encode(), _normalize_layout(file.read_bytes())):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:16]


def _normalize_layout(source: bytes) -> bytes:
    """Return source regenerated from its syntax tree, or unchanged if it is not Python."""
    try:
        return ast.unparse(ast.parse(source)).encode("utf-8", "surrogatepass")
    except (SyntaxError, ValueError, RecursionError):
        return source

"""The surroundings of a case: a folder of its own, and others beside it that nothing may change."""

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Listing = dict[str, tuple[Any, ...]]

KEPT = {
    "secret.txt": b"Nothing may change this file.\n",
    "record.json": b"{}\n",
    "figures/picture.png": b"not a picture",
    "figures/picture.svg": b"<svg/>",
    "tables/leaderboard.json": b"{}",
    "tables/other.csv": b"a,b\n",
    "records.jsonl.xz": b"not packed",
    "arrays/0123456789abcdef.npz": b"no arrays",
    "README.md": b"# Leaderboards\n",
}
"""Files outside of a case's folder that hostile links point to."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class World:
    """Folders of one worker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.case, self.outside, self.home, self.temporary = (
            root / name for name in ("case", "outside", "home", "temporary")
        )
        self.build()

    def build(self) -> None:
        """Make everything that surrounds a case anew."""
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.case, self.home, self.temporary):
            folder.mkdir(parents=True)
        for name, content in KEPT.items():
            (self.outside / name).parent.mkdir(parents=True, exist_ok=True)
            (self.outside / name).write_bytes(content)

    def empty(self) -> None:
        """Empty the folder of cases for the next one."""
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()

    def environment(self) -> dict[str, str]:
        """Variables that keep fflbench inside of these folders, and away from the network."""
        nowhere = "http://127.0.0.1:1"
        return {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "TMPDIR": str(self.temporary),
            "FFLBENCH_DATA": str(self.case / "data"),
            "http_proxy": nowhere,
            "https_proxy": nowhere,
            "COLUMNS": "160",
        }

    def listing(self, but: Iterable[str] = ()) -> Listing:
        """State of every file and folder, except some of the case's own."""
        found: Listing = {}
        skipped = {str(self.case / name) for name in but}
        if str(self.case) in skipped:
            skipped |= {entry.path for entry in os.scandir(self.case)}
        folders = [str(self.root)]
        while folders:
            for entry in os.scandir(folders.pop()):
                if entry.path in skipped:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    found[entry.path] = ("folder",)
                else:
                    now = entry.stat(follow_symlinks=False)
                    target = str(Path(entry.path).readlink()) if entry.is_symlink() else ""
                    found[entry.path] = (now.st_mode, now.st_ino, now.st_size, now.st_mtime_ns, target)
        return found

    def changes(self, before: Listing, now: Listing) -> list[str]:
        """Paths that differ."""
        return sorted(
            os.path.relpath(path, self.case) for path in before.keys() | now.keys() if before.get(path) != now.get(path)
        )


class Watchdog:
    """Notices writing outside of a folder, by Python's audit events; it cannot be taken away again."""

    def __init__(self, world: World) -> None:
        self.allowed = (os.path.realpath(world.root), "/dev/null", "/dev/tty")
        self.found: list[str] = []
        self.looking = False
        sys.addaudithook(self._check_audit_event)

    def _check_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.looking or event not in EVENTS:
            return
        self.looking = False
        try:
            for path, followed in EVENTS[event](arguments):
                if isinstance(path, str | bytes | os.PathLike) and not self._is_allowed(path, followed):
                    self.found.append(f"{event} {os.fsdecode(path)}")
        finally:
            self.looking = True

    def _is_allowed(self, path: Any, followed: bool) -> bool:
        text = os.fsdecode(path)
        if "\0" in text:
            return True
        where = os.path.realpath(text if followed else Path(text).absolute().parent)
        return any(where == allowed or where.startswith(f"{allowed}{os.sep}") for allowed in self.allowed)


def _paths_opened_for_writing(arguments: tuple[Any, ...]) -> Iterable[tuple[Any, bool]]:
    path, mode, flags = arguments
    writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & WRITING)
    return [(path, True)] if writes else []


EVENTS: dict[str, Any] = {
    "open": _paths_opened_for_writing,
    "os.rename": lambda arguments: [(arguments[0], False), (arguments[1], False)],
    "os.remove": lambda arguments: [(arguments[0], False)],
    "os.rmdir": lambda arguments: [(arguments[0], False)],
    "os.mkdir": lambda arguments: [(arguments[0], False)],
    "os.link": lambda arguments: [(arguments[1], False)],
    "os.symlink": lambda arguments: [(arguments[1], False)],
    "os.truncate": lambda arguments: [(arguments[0], True)],
    "os.chmod": lambda arguments: [(arguments[0], True)],
}
"""Events that write, with the paths they write to and whether links are followed."""

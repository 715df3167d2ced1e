"""Replacing several files of a folder at once: all of them, or none."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fflbench.errors import RecordError

STAGED = ".fflbench-"
"""How the folder begins in which files wait until all are written."""


def refuse_links(*places: Path) -> None:
    """Refuse symbolic links at these places and anywhere under them, with a `RecordError`."""
    for place in places:
        if place.is_symlink():
            raise RecordError(f"{place} is a symbolic link, which is not followed: name the folder it leads to")
        for folder, folders, files in os.walk(place):
            for name in (*folders, *files):
                link = Path(folder) / name
                if link.is_symlink():
                    raise RecordError(f"{link} is a symbolic link, which is not followed: put there what it leads to")


def replace_files(root: Path, files: Mapping[str, bytes], removed: Iterable[str] = ()) -> None:
    """Write files under a folder and remove others; whatever goes wrong, the folder is as it was before.

    Everything is written beside its place first, so that a full disk changes nothing; then files are renamed, and what
    they replace is kept until the last is in place. Symbolic links, and anything but files where files belong, are
    refused. Raises `RecordError` or `OSError`.
    """
    gone = [name for name in removed if name not in files]
    for name in (*files, *gone):
        _refuse_strange(root, name)
    changed = {name: content for name, content in files.items() if not _holds(root / name, content)}
    if not changed and not gone:
        return
    made = _make(root)
    try:
        with _staging(root) as stage:
            for name, content in changed.items():
                _write(stage / "new" / name, content)
            _swap(root, stage, list(changed), gone)
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _swap(root: Path, stage: Path, changed: list[str], gone: list[str]) -> None:
    """Rename everything into its place, or back."""
    replaced: list[tuple[Path, Path]] = []
    added: list[Path] = []
    made: list[Path] = []
    try:
        for name in (*changed, *gone):
            place, kept, fresh = root / name, stage / "old" / name, stage / "new" / name
            if place.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                _keep(place, kept)
                replaced.append((kept, place))
            else:
                made += _make(place.parent)
                added.append(place)
            if fresh.exists():
                fresh.replace(place)
            else:
                place.unlink(missing_ok=True)
    except BaseException:
        for kept, place in replaced:
            kept.replace(place)
        for place in added:
            place.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _keep(place: Path, kept: Path) -> None:
    """Have a file under a second name, so that it is never without the first."""
    try:
        os.link(place, kept)
    except OSError:
        place.rename(kept)


@contextmanager
def _staging(root: Path) -> Iterator[Path]:
    """A folder for files that are not yet in their place; one writer at a time."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RecordError(f"another command is writing to {root}: wait for it") from error
        except OSError:
            # Some file systems have no locks.
            pass
        for left_over in root.glob(f"{STAGED}*"):
            # Of a command that was killed.
            shutil.rmtree(left_over, ignore_errors=True)
        stage = Path(tempfile.mkdtemp(prefix=STAGED, dir=root))
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    finally:
        os.close(handle)


def _refuse_strange(root: Path, name: str) -> None:
    place = root
    *folders, last = Path(name).parts
    for part in (*folders, last):
        place = place / part
        try:
            mode = place.lstat().st_mode
        except FileNotFoundError:
            return
        if stat.S_ISLNK(mode):
            raise RecordError(f"{place} is a symbolic link, which is not followed: nothing was written")
        if not (stat.S_ISREG(mode) if place == root / name else stat.S_ISDIR(mode)):
            what = "file" if place == root / name else "folder"
            raise RecordError(f"{place} stands where a {what} of that name belongs: nothing was written")


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.stat().st_size == len(content) and file.read_bytes() == content
    except FileNotFoundError:
        return False


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _make(folder: Path) -> list[Path]:
    """Make a folder and those above it; returns which were made."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
    return missing[::-1]

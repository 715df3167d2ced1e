"""Replacement of several files of a folder at once: all of them, or none."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fflbench.errors import RecordError

STAGE = ".fflbench-stage"
"""Folder of staged files until all are written; one that a killed command left is removed."""
KEPT = ".fflbench-kept-"
"""Prefix of a folder of originals that could not be restored; it is never removed."""


class _NotRestoredError(RecordError):
    """Some originals could not be restored to their place."""


def refuse_symbolic_links(*places: Path) -> None:
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
    """Write files under a folder and remove others; after any error the folder is as it was before.

    All files are staged first, so that a full disk changes nothing, and then renamed in the order of `files` (a new
    folder as a whole); originals are kept until the last is in place. Symbolic links, and anything but files where
    files belong, are refused. Raises `RecordError` or `OSError`.
    """
    gone = [name for name in removed if name not in files]
    refuse_non_files(root, (*files, *gone))
    changed = {name: content for name, content in files.items() if not has_content(root / name, content)}
    if not changed and not gone and not os.path.lexists(root / STAGE):
        return
    made = _make_folder(root)
    try:
        with lock_folder(root), _staging_folder(root) as stage:
            for name, content in changed.items():
                _write_durably(stage / "new" / name, content)
            _rename_into_place(root, stage, gone, list(dict.fromkeys(_path_to_rename(root, name) for name in changed)))
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _path_to_rename(root: Path, name: str) -> str:
    """Return what is renamed to put a file in place: the outermost folder that does not exist yet, or itself."""
    above = [str(folder) for folder in reversed(Path(name).parents[:-1])]
    return next((folder for folder in above if not (root / folder).exists()), name)


def _rename_into_place(root: Path, stage: Path, removed: list[str], renamed: list[str]) -> None:
    """Remove files and rename new ones and new folders into their place, or undo all of it."""
    undo: list[tuple[Path, Path, Path]] = []
    try:
        for name in (*removed, *renamed):
            place, kept, fresh = root / name, stage / "old" / name, stage / "new" / name
            if place.exists():
                kept.parent.mkdir(parents=True, exist_ok=True)
                _link_or_copy(place, kept)
                undo.append((place, kept, place))
            else:
                undo.append((place, place, fresh))
            if fresh.exists():
                fresh.replace(place)
            else:
                place.unlink(missing_ok=True)
    except BaseException as error:
        failed = []
        for place, source, target in reversed(undo):
            try:
                if source.exists():
                    source.replace(target)
            except OSError:
                failed.append(str(place))
        if failed:
            raise _NotRestoredError(f"{', '.join(failed)} could not be put back as before ({error})") from error
        raise


def _link_or_copy(original: Path, backup: Path) -> None:
    """Link a file to a second name, so that the first always exists."""
    try:
        os.link(original, backup)
    except OSError:
        # Some file systems have no hard links.
        shutil.copy2(original, backup)


@contextmanager
def lock_folder(root: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a folder for writing; if another command holds it, wait for it or raise a `RecordError`."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as error:
            raise RecordError(f"another command is writing to {root}: wait for it") from error
        except OSError:
            # Some file systems have no locks.
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def _staging_folder(root: Path) -> Iterator[Path]:
    """Make a folder for staged files, and remove it at the end."""
    stage = root / STAGE
    if stage.is_symlink() or (stage.exists() and not stage.is_dir()):
        raise RecordError(f"{stage} stands where files wait to be renamed, and is no folder: move it away")
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    try:
        yield stage
    except _NotRestoredError as error:
        # Renamed, since the next command removes what a killed one left under the old name.
        kept = stage
        with suppress(OSError):
            kept = stage.replace(tempfile.mkdtemp(prefix=KEPT, dir=root))
        raise RecordError(f"{error}: the originals are in {kept / 'old'}") from error
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        raise
    shutil.rmtree(stage, ignore_errors=True)


def refuse_non_files(root: Path, names: Iterable[str]) -> None:
    """Refuse symbolic links, and anything but a file, where files of these names belong, with a `RecordError`."""
    for name in names:
        _refuse_non_file(root, name)


def _refuse_non_file(root: Path, name: str) -> None:
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


def has_content(file: Path, content: bytes) -> bool:
    """Return whether a file exists with this content."""
    try:
        return file.stat().st_size == len(content) and file.read_bytes() == content
    except FileNotFoundError:
        return False


def _write_durably(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and its missing parents, and return the new ones."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
    return missing[::-1]

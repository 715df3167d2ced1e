"""Cores and memory of this machine that this process may use."""

import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return the number of cores that this process may use; a batch system may grant fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def usable_memory() -> int:
    """Return the bytes of memory of the machine, or of the container or batch job that this process runs in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _memory_limit_files():
        try:
            total = min(total, int(file.read_text("ascii")))
        except (OSError, ValueError):
            continue
    return total


def _memory_limit_files() -> Iterator[Path]:
    """Yield the files that may hold a memory limit: of this process's control group and of all above it."""
    try:
        own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    except OSError:
        own = []
    for _, kinds, path in [*own, ["", "", "/"], ["", "memory", "/"]]:
        if kinds not in ("", "memory"):
            continue
        home, name = (GROUPS / "memory", "memory.limit_in_bytes") if kinds else (GROUPS, "memory.max")
        place = home / path.lstrip("/")
        yield from (folder / name for folder in (place, *place.parents) if folder.is_relative_to(home))


def count_out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed so far for lack of memory; 0 if that is unknown."""
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text("ascii").splitlines())
        return int(counters["oom_kill"])
    except (OSError, KeyError, ValueError):
        return 0

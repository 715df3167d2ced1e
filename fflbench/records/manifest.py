"""Manifest of a result: versions, commit, processor, threads."""

import functools
import importlib.metadata
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fflbench import __version__, registry
from fflbench.records.cell_configuration import registered_parts
from fflbench.registry import Kind

RESULTS_VERSION = 2
"""Results version of the core, raised by every change to it that alters results."""

LIBRARIES = ("numpy", "scikit-learn", "scipy", "torch")


def results_versions(configuration: Mapping[str, Any]) -> dict[str, int | str]:
    """Return the versions by which an old record stays valid, with the source digests of outside plugins."""
    parts = registered_parts(configuration)
    return {"core": RESULTS_VERSION, **{part.key: registry.get(part.kind, part.name).results_version for part in parts}}


def build_manifest(configuration: Mapping[str, Any], device: str, plugins: Sequence[str] = ()) -> dict[str, Any]:
    """Return all that could explain different results on another machine."""
    measure = registry.get(Kind.MEASURE, configuration["measure"]["name"])
    return {
        "results": results_versions(configuration),
        "fflbench": __version__,
        "commit": source_commit(),
        "python": platform.python_version(),
        "libraries": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "system": platform.system(),
        "processor": processor_name(),
        "device": device,
        "plugins": list(plugins),
        "threads": measure.create(**configuration["measure"]["parameters"]).threads,
    }


@functools.cache
def source_commit() -> str:
    """Return the commit of the source checkout, with a plus sign if it was changed; empty outside a checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        git = functools.partial(subprocess.run, cwd=root, capture_output=True, text=True, check=True, timeout=5)
        head = git(["git", "rev-parse", "HEAD"]).stdout.strip()
        changed = git(["git", "status", "--porcelain", "--untracked-files=no"]).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changed else "")


@functools.cache
def processor_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    return " ".join(filter(None, (named.get("model name"), named.get("cpu family"), named.get("model"))))

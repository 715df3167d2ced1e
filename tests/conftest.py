import os
import subprocess
from pathlib import Path

import platformdirs
import pytest
import torch
from hypothesis import settings

from fflbench import registry
from fflbench.data.cache import is_available
from fflbench.data.datasets import DATASETS

# A busy machine is no reason to fail.
settings.register_profile("fflbench", deadline=None)
settings.load_profile("fflbench")


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Threads that wait for each other on a busy machine make small operations a hundred times slower."""
    torch.set_num_threads(1)


@pytest.fixture
def own_registry(monkeypatch):
    """The registry as it is; what a test adds is gone after it."""
    registry.load_installed()
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.fixture
def own_folders(monkeypatch, tmp_path):
    """A data folder and a user cache of the test's own; returns the data folder."""
    monkeypatch.setenv("FFLBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / "cache" / name)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture(scope="session")
def real_data():
    """The folder with the real data sets, for tests that make no sense without them."""
    folder = os.environ.get("FFLBENCH_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs the real data sets: set FFLBENCH_DATA to their folder")
    return Path(folder)


@pytest.fixture
def real(real_data):
    """Skips unless a real data set is here, whole."""

    def need(name):
        if name in DATASETS and not is_available(DATASETS[name]):
            pytest.skip(f"needs the real {DATASETS[name].title} under FFLBENCH_DATA")

    return need


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own under a folder, with its options."""
    mounted = []

    def mount(name, options):
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", place], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"may not mount a disk: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in reversed(mounted):
        subprocess.run(["umount", "--lazy", place], check=True)

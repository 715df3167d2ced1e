"""Suites that come with fflbench, registered by their file names."""

from pathlib import Path

from fflbench.plugin import suites_in

suites_in(Path(__file__).parent)

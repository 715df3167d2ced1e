"""Suites that come with fflbench, registered by their file names."""

from pathlib import Path

from fflbench.registration import suites_in

suites_in(Path(__file__).parent)

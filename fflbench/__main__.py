"""Entry point of `python -m fflbench`."""

from fflbench.cli import main

main()

"""`python -m fflbench` is the command."""

from fflbench.cli import main

main()

"""Entry point of `fflbench` and `python -m fflbench`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported prints no traceback."""
    try:
        from fflbench import cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()

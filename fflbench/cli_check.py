"""Options of `fflbench check`."""

from typing import Annotated

import typer

from fflbench import cli_options
from fflbench.cli_options import Plugins, load_plugins
from fflbench.registry import Kind


def check_command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME|MODULE:FUNCTION",
            help="A plugin's file, a registered name, or any function or class: my_module:krum, my_file.py:krum.",
        ),
    ],
    rule: Annotated[
        str | None,
        typer.Option(
            help="Compare with the definition of this rule or pre-aggregation: krum, bulyan, nnm or another that has "
            "one (docs/extend.md)."
        ),
    ] = None,
    kind: Annotated[Kind | None, typer.Option(help="Only plugins of this kind, if several share the name.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Argument of the function, as a value or a formula of f and n: num_bad=f, m=n-f, share=f/n; may be "
            "repeated.",
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Check a plugin, or compare a function with the definition in its paper.

    A plugin is checked for what all of its kind must do: shapes, determinism, inputs left as they are, hostile rows,
    saved memory. One that has the name of a definition is compared with it too. Example: fflbench check my_defense.py

    With --rule, a function of any package is called with a matrix of updates (numpy, torch or a list of rows) and the
    number of attackers f, on random, small, tied and hostile matrices. A class is created first, then called. Where
    a known variant fits, the report names it; otherwise it shows the smallest matrix on which the answers differ.
    Examples: fflbench check my_module:krum --rule krum · fflbench check byzfl:MultiKrum --rule multi-krum · fflbench
    check rules.py:trim --rule trimmed-mean --set share=f/n · fflbench check my_plugin.py --rule krum

    Exit code 0: everything holds, or the function agrees. 1: something does not. 2: a mistake in the command.
    """
    load_plugins(plugin)
    from fflbench import check_plugins

    if not check_plugins.check_target(target, rule, kind, dict(cli_options.parse_key_values(settings or ()))):
        raise typer.Exit(1)

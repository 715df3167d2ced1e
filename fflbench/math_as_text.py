r"""Formulas in docstrings as text for terminals: "$\lVert x_k \rVert^2$" is shown as "‖x_k‖^2"."""

import functools
import re
from collections.abc import Callable
from typing import Any

FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(?=\S)([^$]+?)(?<=\S)\$(?!\d)", re.DOTALL)
"""LaTeX between dollar signs, by Pandoc's rule: amounts of money and shell variables are none."""

FRACTIONS = ("frac", "tfrac", "dfrac")


def math_as_text(text: str) -> str:
    """Return a text with its formulas in plain characters."""
    return FORMULA.sub(lambda found: _formula_as_text(found[1] or found[2]), text)


def _formula_as_text(formula: str) -> str:
    try:
        text = _converter()(formula)
    except Exception:
        # A plugin may write anything between dollar signs.
        text = formula
    return re.sub(r"(?<=[‖⌊⌈⟨(]) | (?=[‖⌋⌉⟩),])", "", " ".join(text.split()))


@functools.cache
def _converter() -> Callable[[str], str]:
    """Return a function that converts LaTeX, with brackets that a fraction in one line needs."""
    from pylatexenc import latex2text, latexwalker, macrospec

    parsed = latexwalker.get_default_latex_context_db()
    parsed.add_context_category("fractions", [macrospec.std_macro(name, False, 2) for name in FRACTIONS], prepend=True)
    shown = latex2text.get_default_latex_context_db()
    macros = [latex2text.MacroTextSpec(name, simplify_repl=_fraction) for name in FRACTIONS]
    macros += [latex2text.MacroTextSpec(name, discard=True) for name in ("left", "right")]
    shown.add_context_category("fractions", macros, prepend=True)
    shown.set_unknown_macro_spec(latex2text.MacroTextSpec("", simplify_repl=lambda node: node.macroname))
    converter = latex2text.LatexNodes2Text(
        latex_context=shown,
        math_mode="text",
        keep_braced_groups=True,
        keep_braced_groups_minlen=2,
    )
    return lambda formula: str(converter.latex_to_text(f"${formula}$", latex_context=parsed))


def _fraction(node: Any, l2tobj: Any) -> str:
    parts = [l2tobj.nodelist_to_text([part]).strip("{} ") for part in node.nodeargd.argnlist]
    numerator, denominator = (part if re.fullmatch(r"\w+", part) else f"({part})" for part in parts)
    return f" {numerator}/{denominator} "

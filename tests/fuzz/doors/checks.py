"""Plugins and functions of anybody, by `check`."""

from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.doors.plugins import KINDS, NAMES, source
from tests.fuzz.mutation import TEXTS

HEAD = (
    "import os, sys\nimport numpy as np\nclass Base(BaseException): pass\nclass Odd:\n    def __repr__(self): 1 / 0\n"
)
SIGNATURES = (
    "rows, f",
    "rows",
    "rows, f=1",
    "rows, *more, **named",
    "",
    "rows, bad",
    "rows, /, f",
    "rows, weights, f=3",
)
BODIES = (
    "return rows[0]",
    "return rows.mean(0)",
    "return rows.median(0).values",
    "return [sum(column) for column in zip(*rows)]",
    "raise Base(chr(27))",
    "raise KeyError(Odd())",
    "sys.exit(7)",
    "return Odd()",
    "return rows * np.nan",
    "return np.zeros((3, 0, 2))",
    "return np.array([Odd()])",
    "return (rows, Odd())",
    "return {1: rows}",
    "return iter(rows)",
    "return 10 ** 400",
    "return [10 ** 400] * len(rows[0])",
    "rows[:] = 7; return rows[0]",
    "print(chr(27) * 3); return rows[-1]",
    "sys.stdout = None; return rows[0]",
    "sys.stdout.close(); return rows[0]",
    "np.seterr(all='raise'); return rows.sum(0) / 0",
    "import warnings; warnings.warn(chr(27)); return rows[0]",
    "return f(rows)",
    "return theirs",
    "yield rows",
)
RULES = ("krum", "multi-krum", "median", "trimmed-mean", "fedavg", "foolsgold", "nnm", "arc", "bucketing", "reputation")
SETTINGS = (
    "f=2",
    "f=-1",
    "f=n",
    "f=1e9",
    "bad=f",
    "bad=f/n",
    "bad=n/(f-f)",
    "m=n-f",
    "m=0",
    "m=x",
    "s=0",
    "bound=-1",
    "=",
    "f=",
)


@door("checks", share=3, isolated=True)
def checks(case: Case) -> None:
    """Plugin files and functions that misbehave, by `check` with and without a definition."""
    rng = case.rng
    if rng.random() < 0.3:
        kind, name = rng.choice(KINDS[:2]), rng.choice(NAMES)
        case.write("plugin.py", source(rng, kind, name))
        case.command(
            "check", *rng.choice((("plugin.py",), (name, "--plugin", "plugin.py"), ("plugin.py", "--rule", "krum")))
        )
        return
    text = f"{HEAD}def theirs({rng.choice(SIGNATURES)}):\n    {rng.choice(BODIES)}\n"
    case.write("theirs.py", text)
    case.log.append(text)
    target = "theirs.py:theirs" if rng.random() < 0.9 else rng.choice(TEXTS).replace("\x00", "")
    settings = [part for _ in range(rng.choice((0, 0, 1, 2))) for part in ("--set", rng.choice(SETTINGS))]
    case.command("check", target, "--rule", rng.choice(RULES), *settings)

"""Plugins: Python files that register something odd."""

from random import Random

from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import ESCAPES, TEXTS

HEAD = '''"""{doc}"""
import os, sys
from dataclasses import dataclass, field
from typing import Annotated, Any, Callable, Literal, Optional
import numpy as np
from fflbench.errors import ParameterError
from fflbench.federation import Attack, Rule, Transport
from fflbench.measures import Measure
from fflbench.privacy.reconstruction_attack import ReconstructionAttack
from fflbench.privacy.observation import Observation
from fflbench.registration import (
    attack,
    chain,
    measure,
    observation,
    preaggregation,
    privacy_attack,
    rule,
    task,
    transport,
)
from fflbench.tasks import Task

class Odd:
    def __repr__(self): raise ValueError("no repr")
    __str__ = __repr__

class Base(Exception):
    pass
'''

DECORATORS = {
    "rule": "@rule({name!r}, title={title!r}{extra})",
    "preaggregation": "@preaggregation({name!r}, title={title!r}{extra})",
    "transport": "@transport({name!r}, title={title!r}{extra})",
    "observation": "@observation({name!r}, title={title!r}, knows={knows}{extra})",
    "attack": "@attack({name!r}, title={title!r}, knows={knows}{extra})",
    "privacy-attack": "@privacy_attack({name!r}, title={title!r}, knows={knows}{extra})",
    "task": "@task({name!r}, title={title!r}{extra})",
    "measure": "@measure({name!r}, title={title!r}{extra})",
}
BASES = {
    "rule": "Rule",
    "preaggregation": "object",
    "transport": "Transport",
    "observation": "Observation",
    "attack": "Attack",
    "privacy-attack": "ReconstructionAttack",
    "task": "Task",
    "measure": "Measure",
}
OTHER_BASES = (
    "",
    "(object)",
    "(dict)",
    "(int)",
    "(Exception)",
    "(type)",
    "(Attack)",
    "(Rule)",
    "(Transport)",
    "(Observation)",
    "(Task)",
    "(Measure)",
)

ANNOTATIONS = (
    "int",
    "float",
    "str",
    "bool",
    "Any",
    "object",
    "Odd",
    "Callable[[int], int]",
    "np.ndarray",
    "'Missing'",
    "Literal['a', 'b']",
    "Optional[int]",
    "int | str | None",
    "list[int]",
    "tuple[int, ...]",
    "dict[str, Any]",
    "set[int]",
    "type",
    "None",
    "complex",
    "bytes",
    "Annotated[int, 'meaning']",
    "Annotated[int, '\\x1b[31mred']",
    "Annotated[int, Odd()]",
    "3",
)
DEFAULTS = (
    "1", "0.5", "'text'", "None", "True", "[]", "{}", "field(default_factory=list)", "field(default_factory=Odd)",
    "Odd()", "np.zeros(3)", "float('nan')", "10**400", "'\\x1b[31m'", "'\\ud800'", "lambda: 1", "object()", "...", "",
)  # fmt: skip
BODIES = (
    "pass",
    "def __post_init__(self): raise ValueError('x')",
    "def __post_init__(self): raise KeyError('x')",
    "def __post_init__(self): raise Base('\\x1b[31mred')",
    "def __post_init__(self): sys.exit(3)",
    "def __post_init__(self): sys.exit('text')",
    "def __post_init__(self): raise KeyboardInterrupt",
    "def __post_init__(self): 1 / 0",
    "def __post_init__(self): raise ParameterError('too\\nmany lines')",
    "def __post_init__(self): self.a = Odd()",
    "def __init__(self): pass",
    "def __init__(self, a, b): pass",
    "def __getattr__(self, name): raise RuntimeError(name)",
    "def __str__(self): raise RuntimeError('no text')",
    "def validate(self, per_round): raise KeyError('x')",
    "def validate(self, per_round): sys.exit(4)",
    "def validate(self): pass",
    "share = 2.0",
    "share = 'much'",
    "rows = 'sum'",
    "rows = 3",
    "multiple = 0",
    "deviation = 3",
    "deviation = Odd",
    "needs_participants = 'yes'",
    "adaptive = Odd()",
    "servers = 3",
    "def begin(self, *given): raise KeyError('x')",
    "def flags(self): return 3",
    "def assumed_attackers(self, selected, n): return 'many'",
    "def applies_to(self, transport): raise KeyError('x')",
    "def applies_to(self, transport): return Odd()",
    "def count(self, participants): return 'many'",
    "def count(self, participants): return 10**9",
    "knows = 3",
    "__slots__ = ('a',)",
    "rounds = -1",
    "participants = 0",
    "per_round = 10**12",
    "rounds = 'many'",
    "batch_size = 0",
    "classes = ()",
    "data_set = 3",
    "def model(self): raise RuntimeError('x')",
    "def model(self): return None",
    "def data(self): raise OSError('x')",
    "def data(self): sys.exit(3)",
    "def parameter_count(self): sys.exit(3)",
    "def parameter_count(self): return 'many'",
    "def parameter_count(self): return -1",
    "alone = Odd()",
    "attacked = 'defense'",
    "metrics = 3",
    "metrics = ('accuracy',)",
    "facts = 3",
    "exact_facts = 3",
    "def step_count(self, task): return 'many'",
    "def run(self, context): return 3",
    "def run(self, context): context.resume(3)",
    "def run(self, context): context.report_step('x', state=3)",
    "def memory_bytes(self, task): return -1",
    "def memory_bytes(self, task): raise KeyError('x')",
    "def estimate_seconds(self, task, defense, attack, timing): return float('nan')",
    "def estimate_seconds(self, task, defense, attack, timing): return 1e400",
    "def estimate_seconds(self, task, defense, attack, timing): return 'long'",
    "def applies_to(self, defense): raise KeyError('x')",
    "def check(self, task, defense, attack): raise KeyError('x')",
    "def check(self, task, defense, attack): raise ParameterError('\\x1b[31m')",
    "def accepts_attack(self, attack): raise KeyError('x')",
    "@staticmethod\n    def missing_dependency(): raise KeyError('x')",
    "@staticmethod\n    def missing_dependency(): return 3",
    "@property\n    def rounds(self): raise KeyError('x')",
    "@property\n    def simulated_part(self): raise KeyError('x')",
)
WHOLE = (
    "raise SystemExit(3)",
    "sys.exit('\\x1b[31mred')",
    "raise KeyError('\\x1b[31mred')",
    "raise Base()",
    "raise BaseException('x')",
    "raise ParameterError('a\\nb')",
    "def broken(:",
    "import missing_module_of_nobody",
    "\x00",
    "1 / 0",
    "raise UnicodeDecodeError('utf-8', b'x', 0, 1, '\\x1b[31m')",
    "class E(Exception):\n    def __str__(self): raise ValueError('x')\nraise E()",
    "def f(): f()\nf()",
    "del sys.modules[__name__]",
    "sys.modules[__name__] = None",
    "__path__ = 3",
    "import fflbench.registry as r; r._entries.clear()",
    "print('\\x1b[31m' * 0)",
    "os.chdir('/')",
    "import warnings; warnings.warn('\\x1b[31mred')",
    "sys.path.clear()",
    "rule('again', title='x')(rule('again', title='x')(lambda updates: updates.mean(0)))",
    "rule('fedavg', title='x')(lambda updates: updates.mean(0))",
    "preaggregation('fedavg', title='x')(lambda updates: np.eye(len(updates)))",
    "for i in range(3): rule(f'many-{i}', title='x')(lambda updates: updates.mean(0))",
    "rule('a-class', title='x')(int)",
    "rule('a-number', title='x')(3)",
    "rule('a-builtin', title='x')(len)",
    "chain('odd-one', 'nnm + median', title='x')",
    "chain('odd-one', 'odd-one', title='x')",
    "chain('odd-one', 'odd + median', title='x'); chain('odd', 'odd-one', title='x')",
    "chain('odd-one', 'median + nnm', title='x')",
    "chain('odd-one', '', title='x')",
    "chain('odd-one', 3, title='x')",
    "chain('odd-one', 'median', title='x', summary='\\x1b[31mred')",
    "attack('no-class', title='x', knows=[])(lambda: 1)",
    "task('no-class', title='x')(None)",
)
FUNCTIONS = (
    "def {function}(updates): return updates.mean(0)",
    "def {function}(): return 1",
    "def {function}(*updates): return 1",
    "def {function}(updates, f: int): return updates.mean(0)",
    "def {function}(updates, f): return updates.mean(0)",
    "def {function}(updates, **more): return 1",
    "def {function}(updates, weights, rng, columns, participants): return updates.mean(0)",
    "def {function}(updates, norms, distances, model, scale): return np.eye(len(updates))",
    "def {function}(updates): return np.ones((2, len(updates)))",
    "def {function}(updates): raise KeyError('x')",
    "def {function}(updates, a: {annotation} = {default}): return updates.mean(0)",
    "async def {function}(updates): return 1",
    "def {function}(updates, /): return 1",
    "{function} = lambda updates: updates.mean(0)",
)
NAMES = ("odd-one", "odd-one", "odd-one", "odd", "fedavg", "Odd One", "", "-", "a--b", "é", "n" * 300, "1", "*")
EXTRA = (
    ", version=2", ", version='x'", ", version=-1", ", version=None", ", citation='\\x1b[31mred'", ", citation=3",
    ", nothing=1", ", linear=True", ", participants='yes'", ", regroups=True", ", regroups=3",
)  # fmt: skip
TOLERATES = ("f < n/2", "f", "n", "f < 0", "f <", "__import__('os')", "f < n/0", "\\x1b[31m", "f < 10**10**10")
KNOWS = ("[]", "['own data']", "['everything']", "3", "'own data'", "[3]", "None", "['defense', 'defense']")
KINDS = tuple(DECORATORS)
FUNCTIONAL = {"rule": 0.4, "preaggregation": 0.9}
"""Kinds that functions may be of, and how often they are here."""
METHODS = {
    "rule": "def aggregate(self, view, rng): return view.rows.mean(0)",
    "transport": "def transmit(self, upload): return self.submitted(upload)",
    "observation": "def observe(self, coalition): return []",
}
SUITES = {
    "rule": 'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["{name}"]\nseeds = [0]\n',
    "preaggregation": 'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["{name} + median"]\nseeds = [0]\n',
    "transport": 'tasks = ["digits-mlp"]\nattacks = ["none"]\ndefenses = ["{name} + nnm + median"]\nseeds = [0]\n'
    '[deviation."{name}"]\na = 1\n',
    "observation": 'tasks = ["digits-mlp"]\nattacks = ["dlg"]\ndefenses = ["fedavg", "ffl"]\nseeds = [0]\n[measure]\n'
    'use = "reconstruction"\nobservation = "{name}"\n',
    "attack": 'tasks = ["digits-mlp"]\nattacks = ["{name}"]\ndefenses = ["fedavg"]\nseeds = [0]\n',
    "task": 'tasks = ["{name}"]\nattacks = ["none"]\ndefenses = ["fedavg"]\nseeds = [0]\n',
    "privacy-attack": 'tasks = ["digits-mlp"]\nattacks = ["{name}"]\ndefenses = ["fedavg"]\nseeds = [0]\n[measure]\n'
    'use = "reconstruction"\n',
    "measure": 'tasks = ["digits-mlp"]\ndefenses = ["fedavg"]\nseeds = [0]\n[measure]\nuse = "{name}"\n',
}


def _text(rng: Random) -> str:
    return rng.choice(ESCAPES) if rng.random() < 0.5 else rng.choice(TEXTS)


def _doc(rng: Random) -> str:
    """A docstring, spelled so that it can stand in a file."""
    text = _text(rng) if rng.random() < 0.5 else "Says what it does."
    return text.encode("unicode_escape").decode().replace('"', "'")


def source(rng: Random, kind: str, name: str) -> str:
    """A plugin's file with something wrong in it."""
    title = "Odd" if rng.random() < 0.7 else _text(rng)
    extra = rng.choice(EXTRA) if rng.random() < 0.2 else ""
    knows = "['own data']" if rng.random() < 0.8 else rng.choice(KNOWS)
    if kind in FUNCTIONAL and rng.random() < 0.3:
        extra += f", tolerates={rng.choice(TOLERATES)!r}"
    decorator = DECORATORS[kind].format(name=name, title=title, extra=extra, knows=knows)
    annotation, default = rng.choice(ANNOTATIONS), rng.choice(DEFAULTS)
    head = HEAD.format(doc=_doc(rng))
    if rng.random() < 0.1:
        return f"{head}\n{rng.choice(WHOLE)}\n"
    if kind in FUNCTIONAL and rng.random() < FUNCTIONAL[kind]:
        function = rng.choice(FUNCTIONS).format(function="odd", annotation=annotation, default=default or "1")
        return (
            f"{head}\n{decorator}\n{function}\n" if function.startswith(("def", "async")) else f"{head}\n{function}\n"
        )
    base = f"({BASES[kind]})" if rng.random() < 0.75 else rng.choice(OTHER_BASES)
    lines = [head, decorator, f"class Odd2{base}:", f'    """{_doc(rng)}"""']
    if rng.random() < 0.5:
        lines.append(f"    a: {annotation}{f' = {default}' if default else ''}")
    lines += [f"    {rng.choice(BODIES)}" for _ in range(rng.choice((0, 1, 1, 2)))]
    if kind in METHODS and rng.random() < 0.7:
        lines.append(f"    {METHODS[kind]}")
    return "\n".join(lines) + "\n"


@door("plugins", share=7, isolated=True)
def plugins(case: Case) -> None:
    """Plugin files with odd bases, parameters, docstrings and side effects, by `list` and `run --dry-run`."""
    rng = case.rng
    kind, name = rng.choice(KINDS), rng.choice(NAMES)
    text = source(rng, kind, name)
    file = rng.choice(("plugin.py", "plugin.py", "plugin.py", "odd name.py", "é.py"))
    case.write(file, text)
    case.log.append(text[len(HEAD) - 10 :])
    if rng.random() < 0.5:
        case.command("list", f"{kind}s", "--plugin", file, *rng.choice(((), ("--json",))))
        return
    suite = case.write("suite.toml", SUITES[kind].format(name=name))
    case.command("run", suite, "--dry-run", "--plugin", file)

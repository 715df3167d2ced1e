"""Suite files, and `--set` and `--seeds`, which change them."""

import functools
import tomllib
from random import Random
from typing import Any

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import (
    NUMBERS,
    alter_tree,
    damage_bytes,
    hostile_value,
    replace_file_by_other_kind,
    shell_argument,
    similar_value,
    toml_text,
    typed_text,
)

PLAIN = ("quick", "paper-mnist", "ffl-ablation", "privacy-quick", "paper-runtime")
SEEDS = ("0", "1,2", "", ",", "0,0", "-1", "9" * 30, "9" * 5000, "1e3", "٣", "0x1")


def _fewer_cells(rng: Random, tree: dict[str, Any]) -> dict[str, Any]:
    """A suite with few cells, since planning takes time for each; names that it has tables for stay."""
    few = tree | {"seeds": tree["seeds"][:1]}
    if tree.get("also"):
        few["also"] = rng.sample(tree["also"], 1)
    return few


def _random_setting(rng: Random) -> tuple[list[str], Any]:
    """A parameter of something in the small suite, and a value of the right type or nearly."""
    label, name, default = rng.choice(fixtures.small_suite_parameters())
    return [*label.split("."), name], rng.choice(NUMBERS) if rng.random() < 0.5 else similar_value(rng, default)


@door("suites", share=14, prepare=fixtures.small_suite_parameters)
def suite_files(case: Case) -> None:
    """Shipped suites, altered as a tree of values or as text, planned by `run --dry-run`."""
    rng = case.rng
    text = fixtures.shipped_suites()[rng.choice(list(fixtures.shipped_suites()))]
    kind = rng.random()
    if kind < 0.4:
        tree = alter_tree(rng, _fewer_cells(rng, tomllib.loads(text)), fixtures.vocabulary())
        content = toml_text(tree).encode("utf-8", "surrogatepass")
    elif kind < 0.6:
        tree = tomllib.loads(fixtures.SMALL)
        for _ in range(rng.choice((1, 2))):
            path, value = _random_setting(rng)
            table = functools.reduce(lambda table, key: table.setdefault(key, {}), path[:-1], tree)
            table[path[-1]] = value if rng.random() < 0.8 else [value, 1]
        content = toml_text(tree).encode("utf-8", "surrogatepass")
    elif kind < 0.95:
        content = damage_bytes(rng, text.encode(), [word.encode() for word in fixtures.vocabulary()])
    else:
        content = rng.choice((b"", b"[" * 5000, b"a=" + b"[" * 5000, b"a." * 3000 + b"b=1", b"\xff\xfe", b"a=1\na=2"))
    name = rng.choice(("suite.toml", "suite.toml", "suite.toml", "a b.toml", f"{'n' * 240}.toml", "é.toml"))
    file = case.write(name, content)
    if rng.random() < 0.02:
        replace_file_by_other_kind(rng, case.folder / name, case.world.outside)
    extra = ["--log-json"] if rng.random() < 0.1 else []
    case.command("run", file, "--dry-run", *extra)


@door("settings", share=14, prepare=fixtures.small_suite_parameters)
def settings(case: Case) -> None:
    """`run --set key=value` and `--seeds` with keys and values that fit badly."""
    rng, words = case.rng, fixtures.vocabulary()
    given = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path, value = _random_setting(rng)
        if rng.random() < 0.5:
            path = [rng.choice((*words, typed_text(hostile_value(rng)))) for _ in range(rng.choice((1, 1, 2, 3)))]
        if rng.random() < 0.5:
            value = hostile_value(rng, words)
        text = toml_text({"k": value}).partition("=")[2].strip() if rng.random() < 0.8 else typed_text(value)
        given += ["--set", f"{'.'.join(path)}{rng.choice('==========,')}{text}"]
    if rng.random() < 0.2:
        given += ["--seeds", rng.choice((*SEEDS, typed_text(hostile_value(rng))))]
    suite = rng.choice(PLAIN) if rng.random() < 0.2 else str(case.write("small.toml", fixtures.SMALL))
    case.command("run", suite, "--dry-run", *map(shell_argument, given))

"""Suite files, and `--set` and `--seeds`, which change them."""

import tomllib
from typing import Any

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import altered, damaged, hostile, misplace, toml_text

PLAIN = ("quick", "paper-mnist", "ffl-ablation", "privacy-quick", "paper-runtime")


def _smaller(rng: Any, tree: dict[str, Any]) -> dict[str, Any]:
    """A suite with few seeds and parts: planning takes time for each cell."""
    return (
        tree | {"seeds": tree.get("seeds", [0])[:1], "also": rng.sample(tree.get("also", []), 1)[:1]}
        if tree.get("also")
        else tree | {"seeds": tree.get("seeds", [0])[:1]}
    )


@door("suites", share=16)
def suite_files(case: Case) -> None:
    """Shipped suites, altered as a tree of values or as text, planned by `run --dry-run`."""
    rng = case.rng
    text = fixtures.suites()[rng.choice(list(fixtures.suites()))]
    kind = rng.random()
    if kind < 0.6:
        tree = _smaller(rng, tomllib.loads(text))
        content = toml_text(altered(rng, tree, fixtures.vocabulary())).encode("utf-8", "surrogatepass")
    elif kind < 0.95:
        words = [word.encode() for word in fixtures.vocabulary()]
        content = damaged(rng, text.encode(), words)
    else:
        content = rng.choice((b"", b"[" * 5000, b"a=" + b"[" * 5000, b"a." * 3000 + b"b=1", b"\xff\xfe", b"a=1\na=2"))
    name = rng.choice(("suite.toml", "suite.toml", "suite.toml", "a b.toml", f"{'n' * 240}.toml", "é.toml"))
    file = case.write(name, content)
    if rng.random() < 0.02:
        misplace(rng, case.folder / name, case.world.outside)
    extra = ["--log-json"] if rng.random() < 0.1 else []
    case.command("run", file, "--dry-run", *extra)


@door("settings", share=14)
def settings(case: Case) -> None:
    """`run --set key=value` and `--seeds` with keys and values that fit badly."""
    rng, words = case.rng, fixtures.vocabulary()
    given = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        parts = [
            rng.choice(words) if rng.random() < 0.9 else str(hostile(rng)) for _ in range(rng.choice((1, 1, 2, 3)))
        ]
        value = hostile(rng, words)
        text = toml_text({"k": value}).partition("=")[2].strip() if rng.random() < 0.7 else str(value)[:5000]
        given += ["--set", f"{'.'.join(parts)}{rng.choice('=====,')}{text}"]
    if rng.random() < 0.2:
        chosen = rng.choice(
            ("0", "1,2", "", ",", "0,0", "-1", "9" * 30, "9" * 5000, "1e3", "٣", "0x1", str(hostile(rng)))
        )
        given += ["--seeds", chosen]
    suite = rng.choice(PLAIN)
    if rng.random() < 0.8:
        suite = str(case.write("small.toml", fixtures.SMALL))
    case.command("run", suite, "--dry-run", *_speakable(given))


def _speakable(arguments: list[str]) -> list[str]:
    """Arguments as a shell can hand them over: no NUL, and no surrogates but those of undecodable bytes."""
    return [
        "".join(sign for sign in text if sign != "\0" and not "\ud800" <= sign < "\udc80").replace("\udfff", "")
        for text in arguments
    ]

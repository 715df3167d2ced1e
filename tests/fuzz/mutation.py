"""Altered inputs: bytes, text, trees of JSON or TOML values, and files that are no regular files."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

ESCAPES = ("\x1b[31mred", "\x1b]0;title\x07", "\x9b2J", "a\rb", "bell\x07", "nul\x00", "back\x08space", "del\x7f")
"""Text that a terminal would obey."""

TEXTS = (
    *ESCAPES,
    "",
    " ",
    "\n",
    "a\nb",
    "\t",
    "*",
    ".",
    "..",
    "../../outside/secret.txt",
    "/etc/passwd",
    "-",
    "--help",
    "none",
    "null",
    "nan",
    "1e999",
    "0",
    "a" * 300,
    "漢" * 100,
    "é" * 130,
    "\ud800",
    "\udcff",
    "\u202egnp.exe",
    "\u2028",
    "\ufeff",
    "😀",
    "=1+1",
    "@SUM(A1)",
    "+cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "<img src=x onerror=fuzz>",
    "</td>",
    "a|b",
    "a,b",
    'a"b',
    "a'b",
    "a\\b",
    "$HOME",
    "`id`",
    "%s%n",
    "{0}",
    "{{7*7}}",
    "[bold]x[/bold]",
    "[/]",
    "\\input{x}",
    "_^&%$#~",
)

NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    10,
    0.5,
    -0.5,
    1.5,
    -0.0,
    1e-300,
    5e-324,
    1e30,
    1.1e30,
    1e38,
    3.5e38,
    1e300,
    -1e300,
    1.7e308,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    10**12,
    10**30,
    10**400,
    99999999999,
)

SPECIAL = (float("nan"), float("inf"), float("-inf"), None, True, False)

EMPTY: tuple[Callable[[], Any], ...] = (list, dict, lambda: [[]], lambda: [{}], lambda: {"": None}, lambda: [None])


def hostile_value(rng: Random, words: Sequence[Any] = ()) -> Any:
    """An unexpected value, or one of these words in the wrong place."""
    kind = rng.random()
    if words and kind < 0.3:
        return rng.choice(words)
    if kind < 0.55:
        return rng.choice(TEXTS)
    if kind < 0.8:
        return rng.choice(NUMBERS)
    if kind < 0.9:
        return rng.choice(SPECIAL)
    if kind < 0.92:
        return nested_lists(rng.choice((3, 60, 300)))
    if kind < 0.95:
        return [hostile_value(rng, words) for _ in range(rng.randrange(4))]
    return rng.choice(EMPTY)()


def nested_lists(depth: int) -> Any:
    """Lists inside of lists."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# Trees


def alter_tree(rng: Random, tree: Any, words: Sequence[Any] = (), times: int | None = None) -> Any:
    """A copy of a tree of dicts and lists with some of its nodes altered."""
    root = [_copy_tree(tree)]
    for _ in range(times or rng.choice((1, 1, 1, 2, 3))):
        parent, key = _random_node(rng, root)
        _alter_node(rng, root, parent, key, words)
    return root[0]


def _copy_tree(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copy_tree(value) for key, value in tree.items()}
    return [_copy_tree(value) for value in tree] if isinstance(tree, list | tuple) else tree


def _random_node(rng: Random, root: list[Any]) -> tuple[Any, Any]:
    """A random place in a tree: at each level on the way down it may be found, so upper levels are found as often."""
    parent: Any = root
    key: Any = 0
    while isinstance(parent[key], dict | list) and parent[key] and rng.random() < 0.85:
        parent = parent[key]
        key = rng.choice(list(parent)) if isinstance(parent, dict) else rng.randrange(len(parent))
    return parent, key


def _alter_node(rng: Random, root: list[Any], parent: Any, key: Any, words: Sequence[Any]) -> None:
    value, kind = parent[key], rng.randrange(10)
    if kind < 3:
        parent[key] = hostile_value(rng, words)
    elif kind == 3 and parent is not root:
        del parent[key]
    elif kind == 4 and isinstance(parent, dict):
        parent[_random_key(rng, words)] = parent.pop(key)
    elif kind == 4 and isinstance(parent, list) and parent is not root:
        parent.insert(rng.randrange(len(parent) + 1), _copy_tree(value))
    elif kind == 5:
        other, place = _random_node(rng, root)
        parent[key] = _copy_tree(other[place])
    elif kind == 6 and isinstance(value, dict):
        value[_random_key(rng, words)] = hostile_value(rng, words)
    elif kind == 6 and isinstance(value, list):
        value.append(hostile_value(rng, words))
    elif kind == 7:
        parent[key] = rng.choice(([value], {"a": value}, str(value)[:1000], [value, value]))
    else:
        parent[key] = similar_value(rng, value)


def _random_key(rng: Random, words: Sequence[Any]) -> str:
    return str(rng.choice((*words, *TEXTS)) if words and rng.random() < 0.5 else rng.choice(TEXTS))


def similar_value(rng: Random, value: Any) -> Any:
    """A value of the same type, or nearly."""
    if isinstance(value, bool):
        return rng.choice((not value, int(value), str(value).lower()))
    if isinstance(value, int):
        half = value + 0.5 if abs(value) < 2**53 else 0.5
        return rng.choice((value + 1, value - 1, -value, half, float(round(half)), value * 10**9, str(value)))
    if isinstance(value, float):
        return rng.choice((-value, value + 1, value * 1e9, value * 1e300, -value * 1e300, 7, 1e-320))
    if isinstance(value, str):
        return rng.choice(
            (value + rng.choice(TEXTS), value.upper(), value[1:], value * 20, rng.choice(ESCAPES) + value)
        )
    if isinstance(value, list):
        return rng.choice((value[::-1], value[:1], value[1:], value * 3, [], {str(i): v for i, v in enumerate(value)}))
    if isinstance(value, dict):
        return rng.choice((list(value.items()), list(value), {}, dict(list(value.items())[:1])))
    return rng.choice(NUMBERS)


def typed_text(value: Any) -> str:
    """A value as a user would type it."""
    return "1" * 401 if isinstance(value, int) and abs(value) >= 10**400 else str(value)[:2000]


def shell_argument(text: str) -> str:
    """Text as a shell can hand it over: no NUL, and no surrogates but those that stand for undecodable bytes."""
    return "".join(sign for sign in text if sign != "\0" and not "\ud800" <= sign < "\udc80")


def json_text(rng: Random, tree: Any) -> bytes:
    """A tree as JSON; sometimes as Python would accept it and the standard would not."""
    text = json.dumps(tree, indent=rng.choice((1, None)), ensure_ascii=rng.random() < 0.9)
    if rng.random() < 0.05:
        for old in ("NaN", "Infinity", "null", "0"):
            text = text.replace(old, rng.choice(("1e999", "-1e999", "1" * 5000, "-0", "1E+2", "0.1e-400")), 1)
    return text.encode("utf-8", "surrogatepass")


def toml_text(tree: Any) -> str:
    """A tree as TOML; what TOML cannot hold makes a file that is none."""
    if not isinstance(tree, dict):
        return _toml_value(tree)
    return "".join(f"{_toml_key(key)} = {_toml_value(value)}\n" for key, value in tree.items())


def _toml_key(key: Any) -> str:
    return json.dumps(str(key))


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return repr(value)


# Bytes


def damage_bytes(rng: Random, content: bytes, words: Sequence[bytes] = ()) -> bytes:
    """Bytes that were cut, changed, repeated or put together wrongly."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place, length = rng.randrange(len(found) + 1), rng.choice((1, 1, 2, 4, 8, 100, 5000))
        kind = rng.randrange(9)
        if kind == 0 and found:
            found[place % len(found)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[place : place + length]
        elif kind == 2:
            found[place:place] = rng.randbytes(min(length, 100))
        elif kind == 3:
            found[place:place] = found[place : place + length]
        elif kind == 4:
            del found[place:]
        elif kind == 5 and found:
            found[place % len(found)] = rng.choice((0, 0xFF, 0x80, 0x7F, 0x1B, 0x0A, 0x22, 0x5B))
        elif kind == 6:
            found[place:place] = rng.choice((*words, *(text.encode("utf-8", "surrogatepass") for text in TEXTS)))
        elif kind == 7:
            found[place : place + length] = bytes(length)
        elif rng.random() < 0.3:
            found = bytearray(rng.choice((b"", b"\xef\xbb\xbf" + found, found * 2, found[::-1])))
    return bytes(found)


def flip_bit(content: bytes, bit: int) -> bytes:
    """Bytes with one bit changed."""
    found = bytearray(content)
    found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


# Files that are no files


def replace_file_by_other_kind(rng: Random, path: Path, outside: Path) -> str:
    """Put something else where a file or a folder should be; returns what, or nothing where that is impossible."""
    if any(parent.is_symlink() or (parent.exists() and not parent.is_dir()) for parent in path.parents):
        # Something else stands in the place of a folder already.
        return ""
    targets = sorted(file for file in outside.rglob("*"))
    ways: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(rng.choice(targets)),
        "link to nowhere": lambda: path.symlink_to(outside / "new.txt"),
        "link to itself": lambda: path.symlink_to(path),
        "link to a folder": lambda: path.symlink_to(outside),
        "FIFO": lambda: os.mkfifo(path),
        "folder": lambda: (path / "inside").mkdir(parents=True),
        "empty": lambda: path.write_bytes(b""),
        "missing": lambda: None,
    }
    way = rng.choice(list(ways))
    _remove_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    ways[way]()
    return way


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)

"""Arguments of Python functions."""

from random import Random
from typing import Any

import numpy as np

from tests.fuzz import fixtures
from tests.fuzz.case import Case
from tests.fuzz.door import door
from tests.fuzz.mutation import alter_tree, hostile_value, shell_argument, typed_text


def _rules() -> list[str]:
    from fflbench import registry
    from fflbench.registry import Kind

    return [entry.name for entry in registry.entries(Kind.RULE)]


def _matrix(rng: Random) -> Any:
    """A matrix of updates, or something that is nearly one."""
    import torch

    rows, columns = rng.choice((0, 1, 2, 3, 5, 8, 12)), rng.choice((0, 1, 2, 7, 40))
    generator = np.random.default_rng(rng.getrandbits(32))
    whole = generator.normal(size=(rows, columns))
    scale = rng.choice((1, 1, 1e-40, 1e-300, 1e18, 1e30, 3.4e38, 1e150, 1.7e308, 0))
    with np.errstate(all="ignore"):
        plain = (np.clip(whole, -1, 1) * scale).astype(rng.choice((np.float32, np.float64)))
    kind = rng.randrange(24)
    if kind < 8:
        return plain
    if kind < 11:
        return torch.from_numpy(plain)
    if kind == 11:
        return alter_tree(rng, plain.tolist())
    if kind == 12:
        return plain.astype(
            rng.choice((np.complex128, np.float16, np.int64, bool, "U8", object, np.uint8, np.longdouble))
        )
    if kind == 13 and rows and columns:
        plain[rng.randrange(rows), rng.randrange(columns)] = rng.choice((np.nan, np.inf, -np.inf))
        return plain
    if kind == 14:
        odd: tuple[Any, ...] = (
            torch.from_numpy(plain).to("meta"),
            torch.from_numpy(plain).to_sparse(),
            torch.quantize_per_tensor(torch.zeros(2, 2), 0.1, 0, torch.quint8),
            torch.from_numpy(plain).to(torch.complex64),
            torch.from_numpy(plain).bfloat16(),
            torch.from_numpy(plain).requires_grad_(),
            torch.from_numpy(plain).to_sparse_csr() if rows and columns else torch.zeros(1),
            torch.zeros(2, 3, dtype=torch.bool),
            torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
            torch.zeros(1).expand(3, 10**6),
        )
        return rng.choice(odd)
    if kind == 15:
        return np.ma.masked_array(plain, mask=np.signbit(plain))
    if kind == 16:
        return rng.choice((plain[None], plain.ravel(), plain[:, :, None], plain.T, plain[::-1], plain[:, ::2]))
    if kind == 17:
        return rng.choice(
            ([[1, 2], [3]], [["a"]], [{}], {"a": [1]}, [None], "text", b"bytes", 3, None, object(), [[]], [])
        )
    if kind == 18:
        return rng.choice((range(3), (i for i in range(3)), {1, 2}, [[1j]], [[10**400]], np.array(3.0), list, len))
    if kind == 19:
        return np.broadcast_to(np.float32(1), (3, 10**6))
    if kind == 20:
        return np.full((max(rows, 1), columns), rng.choice((3.4028235e38, -3.4028235e38, 1e-45)), np.float32)
    if kind == 21:
        plain.flags.writeable = False
        return plain
    if kind == 22:
        return plain.astype(plain.dtype.newbyteorder())
    return hostile_value(rng)


def _weights(rng: Random, updates: Any) -> Any:
    rows = len(updates) if isinstance(updates, np.ndarray) and updates.ndim and len(updates) < 100 else 3
    plain = np.arange(1, rows + 1)
    others = (
        plain,
        plain.astype(np.float64) * 1e307,
        plain * 0,
        -plain,
        plain.tolist(),
        plain.astype(object),
        plain.astype("U3"),
        plain + 1j,
        plain[None],
        plain[1:],
        np.full(rows, np.nan),
        np.full(rows, 5e-324),
        [[1], [2, 3]],
        [None] * rows,
        [10**400] * rows,
        dict.fromkeys(range(rows), 1),
        set(range(rows)),
        "abc",
        hostile_value(rng),
    )
    return rng.choice(others)


@door("aggregate", share=12, prepare=_rules)
def aggregate(case: Case) -> None:
    """`fflbench.aggregate` with matrices, weights and parameters of any kind; its answer is finite."""
    import fflbench

    rng = case.rng
    name = rng.choice(_rules()) if rng.random() < 0.95 else hostile_value(rng)
    updates = _matrix(rng)
    named: dict[str, Any] = {}
    if rng.random() < 0.4:
        named["weights"] = _weights(rng, updates)
    if rng.random() < 0.4:
        named[rng.choice(("f", "f", "f", "m", rng.choice(fixtures.vocabulary())))] = rng.choice(
            (0, 1, 2, "bound", hostile_value(rng))
        )
    named.pop("name", None), named.pop("updates", None)
    found = case.call(fflbench.aggregate, name, updates, **named)
    if case.outcome:
        return
    import torch

    case.require(
        isinstance(found, np.ndarray | torch.Tensor), "aggregate returns no vector", str(name), repr(found)[:500]
    )
    values = found.detach().float().numpy() if isinstance(found, torch.Tensor) else found
    case.require(values.ndim == 1, "aggregate returns no vector", str(name), repr(found)[:500])
    with np.errstate(all="ignore"):
        case.require(bool(np.isfinite(values).all()), "aggregate is not finite", str(name), "\n".join(case.log))


@door("aggregator", share=6, prepare=_rules)
def aggregator(case: Case) -> None:
    """Calls of one `fflbench.Aggregator` with arguments of any kind; an error leaves its memory as it was."""
    import fflbench

    rng = case.rng
    named = {rng.choice(("participants", "seed", "f", "kappa")): rng.choice((1, 3, 12, hostile_value(rng)))}
    made = case.call(fflbench.Aggregator, rng.choice(_rules()), **(named if rng.random() < 0.5 else {}))
    for _ in range(0 if case.outcome else rng.randrange(1, 5)):
        updates = _matrix(rng)
        senders = rng.choice((None, None, [0, 1, 2], range(8), _weights(rng, updates)))
        before, rounds = made.memory, made.round
        case.call(made.__call__, updates, participants=senders)
        if made.round == rounds:
            same = all(np.array_equal(kept, before[name]) for name, kept in made.memory.items())
            case.require(same, "an error changed the memory", repr(made), "\n".join(case.log))


@door("poison", share=6, prepare=_rules)
def poison(case: Case) -> None:
    """`fflbench.poison` with matrices and parameters of any kind; it gives one row for each attacker."""
    import fflbench

    rng = case.rng
    name = rng.choice(("gaussian-noise", "noise-control", "label-flipping", hostile_value(rng)))
    count = rng.choice((1, 2, 5, hostile_value(rng)))
    odd = ("own", "model", "defense", "seed", "sigma", "share", rng.choice(fixtures.vocabulary()))
    named = {rng.choice(odd): rng.choice((hostile_value(rng), _matrix(rng)))} if rng.random() < 0.5 else {}
    named.pop("attackers", None)
    found = case.call(fflbench.poison, name, _matrix(rng), attackers=count, **named)
    if not case.outcome:
        case.require(found.ndim == 2 and len(found) == count, "poison returns other rows", str(name), repr(found)[:500])


@door("functions", share=6)
def functions(case: Case) -> None:
    """`fflbench.load`, `fflbench.run`, `Data.from_arrays` and readers of sizes and durations, with odd arguments."""
    import fflbench
    from fflbench.data import Data
    from fflbench.execution import durations_and_sizes

    rng = case.rng
    kind = rng.randrange(5)
    text = typed_text(hostile_value(rng))
    if kind == 0:
        case.call(fflbench.load, rng.choice((shell_argument(text), case.folder, ".", "missing")))
    elif kind == 1:
        units = rng.choice(("", "s", "m", "h", "d", "K", "MB", "G", "TB", " "))
        case.call(
            rng.choice((durations_and_sizes.parse_duration, durations_and_sizes.parse_bytes)),
            f"{text if rng.random() < 0.5 else '9' * rng.randrange(500)}{units}",
        )
    elif kind == 2:
        case.call(Data.from_arrays, *(_matrix(rng) if rng.random() < 0.4 else np.zeros(3, np.int64) for _ in range(4)))
    elif kind == 3:
        from fflbench.execution.cells_to_run import plan_run
        from fflbench.execution.run_options import Options

        suite = rng.choice(("quick", shell_argument(text), "small.toml"))
        case.write("small.toml", fixtures.SMALL)
        seeds: Any = rng.choice((None, [0], [], [-1], [10**30], [True], ["0"], ["0,1"], [None]))
        case.call(plan_run, suite, Options(), out="results", seeds=seeds)
    else:
        from fflbench import registry
        from fflbench.registration import FACTORIES
        from fflbench.registry import Kind

        entry = rng.choice(
            registry.entries(rng.choice([kind for kind in Kind if kind not in (Kind.SUITE, *FACTORIES)]))
        )
        given = {parameter.name: hostile_value(rng) for parameter in entry.parameters if rng.random() < 0.3}
        case.call(entry.create, **given)

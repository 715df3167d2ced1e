"""A few hundred cases over all doors, and proof that the fuzzer would notice if something were wrong."""

# ruff: noqa: T201
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fflbench import cli
from tests.fuzz import report
from tests.fuzz.campaign import distribute_cases, run_cases
from tests.fuzz.door import CAMPAIGNS, Door, doors
from tests.fuzz.failure import ROOT
from tests.fuzz.mutation import NUMBERS, alter_tree, damage_bytes, flip_bit, json_text

TRACEBACK = f"""Traceback (most recent call last):
  File "{ROOT / "fflbench" / "cli.py"}", line 12, in main
    return {{}}["missing"]
KeyError: 'missing'
""".encode()


def test_a_few_hundred_cases_over_all_doors_find_no_failure():
    # A busy machine is no reason to fail, so that a case may take longer here before it counts as a hang.
    command = [sys.executable, "-m", "tests.fuzz", "all", "--cases", "300", "--seconds", "120"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, f"{found.stdout}\n{found.stderr}"
    assert "0 failures" in found.stdout


def attempts(attempt, cases=2, seconds=20.0, **options):
    """Outcome of a door with this function."""
    door = Door("tested", attempt, **options)
    return run_cases([door], distribute_cases([door], cases), workers=1, seconds=seconds)


def failures(attempt, **options):
    """Failures of a door with this function."""
    return {str(result.failure) for result in attempts(attempt, **options).failed}


@pytest.fixture
def command(monkeypatch):
    """Makes `fflbench` do something else, and returns the failures of a door that calls it."""

    def set_to(behaviour, **options):
        monkeypatch.setattr(cli, "main", lambda arguments: behaviour())
        return failures(lambda case: case.command("show", "x"), **options)

    return set_to


def test_a_command_that_does_nothing_wrong_is_no_failure(command):
    assert not command(lambda: sys.exit(2))
    assert not command(lambda: print("all is well"))


def test_an_exception_is_a_failure_with_its_place(command):
    def lookup():
        return {}["missing"]

    (found,) = command(lookup)
    assert found.startswith("KeyError at tests/fuzz/test_fuzz.py:")
    assert found.endswith("in lookup")


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [
        (lambda: sys.exit(3), "exit code 3"),
        (lambda: print("\x1b[31mred"), "control character on the terminal at show: "),
        (lambda: print("title: \x9b", file=sys.stderr), "control character on the terminal at show: title:"),
        (lambda: os.write(2, TRACEBACK), "prints a traceback of KeyError at fflbench/cli.py:12 in main"),
        (lambda: Path("new.txt").touch(), "writes outside its folder at new.txt"),
        (lambda: Path("../outside/secret.txt").write_text("x"), "writes outside its folder at ../outside/secret.txt"),
        (lambda: Path("../outside/README.md").unlink(), "writes outside its folder at ../outside/README.md"),
    ],
)
def test_what_no_command_may_do_is_a_failure(command, behaviour, failure):
    assert command(behaviour) == {failure}


def test_writing_anywhere_else_is_a_failure(command, tmp_path):
    target = tmp_path / "elsewhere.txt"
    (found,) = command(lambda: target.write_text("x"))
    assert found == f"writes outside its folder at open {target}"


def test_a_link_does_not_hide_where_is_written(tmp_path):
    def attempt(case):
        Path("link").symlink_to(case.world.outside / "secret.txt")
        Path("link").write_text("x")

    assert failures(attempt) == {"writes outside its folder at ../outside/secret.txt"}


def wait():
    time.sleep(60)


def loop():
    while True:
        pass


@pytest.mark.parametrize("behaviour", [wait, loop])
def test_a_hang_is_a_failure_and_the_rest_goes_on(monkeypatch, behaviour):
    monkeypatch.setattr(cli, "main", lambda arguments: behaviour())
    tally = attempts(lambda case: case.number and case.command("show", "x"), cases=3, seconds=0.5)
    assert dict(tally.outcomes["tested"]) == {"0": 1, "failed": 2}
    for result in tally.failed:
        assert str(result.failure).startswith("hang at tests/fuzz/test_fuzz.py:")
        assert str(result.failure).endswith(f"in {behaviour.__name__}")


def test_a_case_that_took_too_much_of_a_processor_is_a_hang():
    def attempt(case):
        end = time.process_time() + 0.6
        while time.process_time() < end:
            pass

    (found,) = failures(attempt, cases=1, seconds=0.3)
    assert found == "hang"


@pytest.mark.parametrize("isolated", [False, True])
def test_a_crash_is_a_failure_and_the_rest_goes_on(isolated):
    def attempt(case):
        if case.number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)

    tally = attempts(attempt, cases=4, isolated=isolated)
    assert dict(tally.outcomes["tested"]) == {"0": 3, "failed": 1}
    (failed,) = tally.failed
    assert (failed.number, failed.failure.kind) == (1, "crash (SIGSEGV)")


def test_too_much_memory_is_a_failure():
    (found,) = failures(lambda case: bytearray(2**35))
    assert found.startswith("MemoryError")


def test_a_case_follows_from_its_door_seed_and_number():
    def attempt(case):
        case.log.append(str(case.rng.random()))

    door = Door("tested", attempt)

    def logs(tasks, seed):
        found = {}
        run_cases([door], tasks, seed=seed, workers=2, each=lambda result: found.update({result.number: result.log}))
        return found

    whole = logs(distribute_cases([door], 6), seed=3)
    assert logs([("tested", 4)], seed=3)[4] == whole[4]
    assert logs([("tested", 4)], seed=4)[4] != whole[4]
    assert len({tuple(log) for log in whole.values()}) == 6


def test_every_door_gets_its_share_and_at_least_one_case():
    pair = [Door("rare", print, share=0.001), Door("frequent", print, share=3), Door("seldom", print, share=1)]
    tasks = distribute_cases(pair, 400)
    counts = {door.name: sum(name == door.name for name, _ in tasks) for door in pair}
    assert counts == {"rare": 1, "frequent": 300, "seldom": 100}
    assert len(set(tasks)) == len(tasks)


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_every_door_says_what_it_does(campaign):
    assert all(door.summary.endswith(".") for door in doors(campaign))


def test_failures_that_are_alike_are_counted_together_with_the_command_that_reproduces_them(command):
    def attempt(case):
        case.require(case.number % 2 == 0, "odd number", "here", "\x1b detail")

    tally = attempts(attempt, cases=6)
    (group,) = tally.groups()
    assert [result.number for result in group] == [1, 3, 5]
    message = report.failure_text(group[0], 7)
    assert "python -m tests.fuzz --door tested --seed 7 --case 1" in message
    assert "\x1b" not in message
    assert "     3  tested: odd number at here" in report.summary_table(tally, 1.0)


def test_altered_values_can_always_be_written():
    rng = random.Random(0)
    tree = {"a": [1, 2.5, None, True], "b": {"c": "text", "d": list(NUMBERS)}}
    for _ in range(2000):
        json_text(rng, alter_tree(rng, tree))
        damage_bytes(rng, b"some bytes")
    assert tree == {"a": [1, 2.5, None, True], "b": {"c": "text", "d": list(NUMBERS)}}
    assert flip_bit(b"\x00\x00", 9) == b"\x00\x02"

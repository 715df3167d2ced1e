"""Functions that misbehave end in a sentence, never in a traceback."""

import pytest

from fflbench.cli import main

HEAD = """
import sys
import numpy as np
number = 3
class Base(BaseException): pass
class Mute(Exception):
    def __str__(self): raise ValueError
"""


def check(capsys, *arguments):
    """Exit code, standard output and standard error of `fflbench check`."""
    with pytest.raises(SystemExit) as ended:
        main(["check", *map(str, arguments)])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    assert "\x1b" not in printed.out + printed.err
    return ended.value.code or 0, printed.out, printed.err


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Writes a file with the body of a function, and returns its name on the command line."""
    monkeypatch.chdir(tmp_path)

    def write(body, signature="updates, f"):
        (tmp_path / "theirs.py").write_text(f"{HEAD}def krum({signature}):\n    {body}\n")
        return "theirs.py:krum"

    return write


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("raise KeyError('x')", "it raised KeyError: 'x'"),
        ("raise Base('x')", "it raised Base: x"),
        ("raise Mute", "it raised Mute"),
        ("raise KeyError('\\x1b[31mred')", "it raised KeyError: '\\x1b[31mred'"),
        ("raise KeyError(chr(27) + '[31mred')", "it raised KeyError"),
        ("sys.exit(3)", "it raised SystemExit: 3"),
        ("return None", "it returned a NoneType, and 2 numbers would be right"),
        ("return 'text'", "it returned a str"),
        ("return updates * 1j", "it returned a ndarray"),
        ("return {'a': updates}", "it returned a dict"),
        ("return []", "it returned numbers of shape (0,)"),
        ("return ()", "it returned numbers of shape (0,)"),
        ("return updates", "it returned numbers of shape (5, 2), and 2 numbers would be right"),
        ("return 3", "it returned one number (3), and 2 numbers would be right (if that is the index of a row"),
        ("return [[1, 2], [3]]", "it returned a list"),
        ("return updates[0] * np.nan", "no known variant gives these answers"),
        ("return updates[0] * np.inf", "no known variant gives these answers"),
        ("return np.zeros(updates.shape[1])", "no known variant gives these answers"),
        ("return krum(updates, f)", "it raised RecursionError"),
        ("yield 1", "it returned a generator"),
        ("return krum", "it returned a function"),
        (
            "print(chr(27) + '[31mred'); return updates[0]",
            "yours looks like the first row: is the rule applied at all?",
        ),
        ("updates[:] = 0; return updates[0]", "note: it changes the matrix that it is given"),
        ("return np.random.rand(updates.shape[1])", "note: called again with the same matrix it gives another answer"),
        ("return updates[f]", "no known variant gives these answers"),
        ("assert abs(updates).max() < 1e9, 'too large'; return updates[0]", "on a row of 1e18, f = 2, it raised"),
    ],
)
def test_what_a_function_does_wrong_is_said_in_a_sentence(capsys, theirs, body, sentence):
    code, out, _ = check(capsys, theirs(body), "--rule", "krum")
    assert code == 1
    assert "differs from krum" in out
    assert sentence in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("theirs.py:nothing", "--rule", "krum"), "theirs.py has no nothing"),
        (("theirs.py:HEAD", "--rule", "krum"), "theirs.py has no HEAD"),
        (("theirs.py:number", "--rule", "krum"), "is a int, and neither a function nor a class"),
        (("missing.py:krum", "--rule", "krum"), "there is no such file"),
        (("nobody_has_this:krum", "--rule", "krum"), "No module named 'nobody_has_this'"),
        ((":krum", "--rule", "krum"), "names no function"),
        (("theirs.py:", "--rule", "krum"), "names no function"),
        (("theirs.py:krum",), "say with which definition it is compared, as in --rule krum"),
        (("theirs.py:krum", "--rule", "krumm"), 'did you mean "krum"?'),
        (
            ("theirs.py", "--rule", "krum"),
            "theirs.py registers no plugin; to compare a function: fflbench check theirs.py:krum",
        ),
        (("krumm",), 'no plugin "krumm" is registered; did you mean "krum"?'),
        (("krum", "--kind", "task"), "krum has no plugin of the kind task"),
        (("krum", "--set", "f=2"), "--set is for comparisons"),
        (("digits-mlp", "--rule", "krum"), "digits-mlp is neither a rule nor a pre-aggregation"),
        (("theirs.py:krum", "--rule", "krum", "--set", "f"), "--set takes key=value"),
        (("broken.py",), "broken.py cannot be loaded: ZeroDivisionError: division by zero"),
        (("broken.py:krum", "--rule", "krum"), "broken.py cannot be loaded: ZeroDivisionError: division by zero"),
    ],
)
def test_a_mistake_in_the_command_is_one_sentence_and_exit_code_2(capsys, theirs, tmp_path, arguments, sentence):
    theirs("return updates[0]")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    code, out, err = check(capsys, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("median", "--rule", "krum"), "(it takes none): say which f it uses, as in --set f=2"),
        (("foolsgold", "--rule", "foolsgold", "--set", "kappa=0"), "not defined for kappa = 0: kappa must be above 0"),
        (("clipping", "--rule", "clipping", "--set", "bound=0"), "not defined for bound = 0: bound must be above 0"),
        (("bucketing", "--rule", "bucketing", "--set", "s=0"), "not defined for s = 0: s must be at least 1"),
        (("reputation", "--rule", "reputation", "--set", "alpha=7"), "for alpha = 7: alpha must be from 0 to 1"),
    ],
)
def test_a_value_without_meaning_is_one_sentence_and_exit_code_2(capsys, arguments, sentence):
    code, out, err = check(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.endswith(f"{sentence}\n")

"""`fflbench check` on plugins: each requirement in a sentence, by file and by name."""

from pathlib import Path

import pytest

from tests.references.test_misbehaviour import check

pytestmark = pytest.mark.usefixtures("own_registry")

PLUGINS = '''
"""Rules of a stranger."""
import numpy as np
from fflbench.plugin import preaggregation, rule


@rule("their-krum", title="Their Krum", tolerates="f < (n - 2)/2")
def their_krum(updates, f: int):
    """Takes n - f - 1 neighbours."""
    distances = ((updates[:, None] - updates[None]) ** 2).sum(-1)
    print("their output")
    return updates[np.sort(distances, 1)[:, 1 : len(updates) - f].sum(1).argmin()].copy()
'''
RESTLESS = '''

@rule("restless", title="Restless")
def restless(updates):
    """Gives something else each time."""
    return updates.mean(0) + np.float32(np.random.rand())
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file that registers a rule that is sound, and no Krum of the paper."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(PLUGINS)
    return "theirs.py"


def test_a_file_is_checked_with_a_sentence_for_each_requirement(capsys, file):
    code, out, err = check(capsys, file)
    assert code == 0
    assert out.startswith('rule "their-krum", ')
    assert "  holds: the same view, memory and generator give the same bits\n" in out
    assert "does not hold" not in out
    assert "their output" in err
    assert "their output" not in out


def test_a_requirement_that_does_not_hold_is_said_and_the_exit_code_is_1(capsys, file, tmp_path):
    (tmp_path / file).write_text(PLUGINS + RESTLESS)
    code, out, _ = check(capsys, file)
    assert code == 1
    assert (
        "  does not hold: the same view, memory and generator give the same bits: "
        'rule "restless" gave other bits when it was called again with the same inputs and generators\n'
    ) in out
    assert 'rule "their-krum", ' in out


@pytest.mark.parametrize("target", ["theirs.py", "theirs.py:their_krum"])
def test_a_registered_rule_is_compared_as_the_server_calls_it(capsys, file, target):
    code, out, _ = check(capsys, target, "--rule", "krum")
    assert code == 1
    assert 'rule "their-krum" differs from krum' in out
    assert "differs: neighbours: yours looks like n - f - 1, the paper's is n - f - 2" in out


def test_a_plugin_of_another_file_is_found_by_its_name(capsys, file):
    assert check(capsys, "their-krum")[0] == 2
    assert check(capsys, "their-krum", "--plugin", file)[0] == 0


def test_a_rule_that_has_a_reference_is_compared_with_it_too(capsys):
    code, out, _ = check(capsys, "krum")
    assert code == 0
    assert "  holds: the aggregate is a float32 vector with one number per column, buffers included\n" in out
    assert 'rule "krum" agrees with krum\n' in out


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("fflbench.defenses.rules.multi_krum:krum", "krum"),
        ("bucketing", "bucketing"),
        ("reputation", "reputation"),
        ("fedavg", "fedavg"),
    ],
)
def test_our_own_agree(capsys, target, rule):
    code, out, _ = check(capsys, target, "--rule", rule)
    assert code == 0
    assert f'"{rule}" agrees with {rule}\n' in out


def test_plugins_that_share_a_name_are_all_checked_unless_a_kind_is_given(capsys, file, tmp_path):
    (tmp_path / file).write_text(
        PLUGINS
        + "from fflbench.plugin import Attack, attack\n"
        + "@attack('their-krum', title='Same name', knows=[])\n"
        + "class Same(Attack):\n    '''Does nothing.'''\n"
    )
    both = check(capsys, "their-krum", "--plugin", file)[1]
    assert 'rule "their-krum", ' in both
    assert 'attack "their-krum", ' in both
    one = check(capsys, "their-krum", "--kind", "attack")[1]
    assert 'rule "their-krum", ' not in one


def test_a_plugin_that_nothing_could_be_checked_of_is_not_called_sound(capsys, file, tmp_path):
    (tmp_path / file).write_text(PLUGINS.replace("f: int", "f: int, bound: float"))
    code, out, _ = check(capsys, file)
    assert code == 1
    assert "not checked: " in out
    assert "its parameter bound has no default" in out
    assert "  holds: " not in out


def test_the_comparison_in_the_guide_is_what_a_krum_of_too_many_neighbours_gets(capsys, tmp_path, monkeypatch):
    guide = Path("docs/extend.md").read_text()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(
        "import numpy as np\n"
        "def krum(rows, f):\n"
        "    squares = ((rows[:, None] - rows[None]) ** 2).sum(-1)\n"
        "    return rows[np.sort(squares, 1)[:, 1 : len(rows) - f].sum(1).argmin()]\n"
    )
    out = check(capsys, "theirs.py:krum", "--rule", "krum")[1]
    assert f"```\n{out.replace('theirs.py:krum', 'my_module:krum')}```\n" in guide

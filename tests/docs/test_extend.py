"""docs/extend.md: its files are those that `fflbench new` writes, and every one of them works."""

import shlex
import subprocess
import sys

import numpy as np
import pytest
import torch
from torchvision.models import SqueezeNet1_1_Weights, squeezenet1_1
from typer.testing import CliRunner

from fflbench import registry
from fflbench.cli import app
from fflbench.cli_options import NewKind
from fflbench.conformance import applicable_checks
from fflbench.federation.chain import defense
from fflbench.federation.rounds import Federation, new_model
from fflbench.new_plugin import EXAMPLES, next_steps, read_template, write_plugin
from fflbench.registration import FILLED_IN, KNOWLEDGE
from fflbench.registry import Kind
from tests.docs.extend_page import EXAMPLE, PAGE, up_to_date


def test_the_page_has_the_files_and_tables_of_the_code():
    page = PAGE.read_text("utf-8")
    assert page == up_to_date(page), "docs/extend.md is stale; run python -m tests.docs"
    assert set(EXAMPLE.findall(page)) == {*NewKind, "pretrained-task"}


def test_a_page_with_another_file_is_stale():
    page = PAGE.read_text("utf-8")
    assert up_to_date(page.replace("smallest norms", "largest norms")) == page
    assert all(f"| `{name}` |" in page for name in FILLED_IN)
    assert all(f'| "{word}" |' in page for word in KNOWLEDGE)


def test_every_new_plugin_passes_its_test(tmp_path):
    for kind in NewKind:
        write_plugin(kind, f"my-{kind}", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", NewKind)
def test_the_command_that_runs_a_new_plugin_can_be_planned(kind, own_registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = write_plugin(kind, f"my-{kind}", tmp_path)
    (run,) = [step for step in next_steps(kind, f"my-{kind}", *files) if step.startswith("fflbench run")]
    done = CliRunner().invoke(app, [*shlex.split(run)[1:], "--seeds", "0", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert " 0 done already" in done.output


def test_a_new_plugin_has_its_name_in_every_spelling(tmp_path):
    file, test = write_plugin(NewKind.BACKDOOR, "red-hat", tmp_path / "new")
    text = file.read_text("utf-8") + test.read_text("utf-8")
    assert (file.name, test.name) == ("red_hat.py", "test_red_hat.py")
    assert all(spelled in text for spelled in ('"red-hat"', "class RedHat", 'title="Red hat"'))
    example = EXAMPLES[NewKind.BACKDOOR][1]
    assert example not in text


@pytest.mark.parametrize(
    ("kind", "name", "problem"),
    [
        ("rule", "My Rule", "is no name for a plugin"),
        ("rule", "../away", "is no name for a plugin"),
        ("rule", "a" * 61, "is no name for a plugin"),
        ("rule", "median", "is registered already"),
        ("rule", "updates", "has a meaning in such a file already"),
        ("attack", "attack", "has a meaning in such a file already"),
        ("rule", "class", "has a meaning in such a file already"),
        ("rule", "plain", 'transport "plain" is registered already'),
        ("rule", "test-mine", "pytest would take test_mine.py for tests"),
        ("rule", "1st", "a letter first"),
        ("rule", "scipy", "would hide the Python module scipy"),
        ("rulr", "mine", "Invalid value for"),
    ],
)
def test_a_name_that_cannot_work_is_refused_and_nothing_is_written(kind, name, problem, tmp_path, monkeypatch, capsys):
    from fflbench.cli import main

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["new", kind, name])
    assert stopped.value.code == 2
    assert problem in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_never_overwritten(tmp_path, monkeypatch, capsys):
    from fflbench.cli import main

    (tmp_path / "test_mine.py").write_text("precious")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["new", "rule", "mine"])
    assert stopped.value.code == 2
    assert "test_mine.py is there already" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["test_mine.py"]


@pytest.fixture
def pretrained(own_registry, tmp_path, monkeypatch):
    """The task around a pretrained model, with weights where torchvision's download would put them."""
    checkpoints = tmp_path / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    torch.manual_seed(0)
    torch.save(squeezenet1_1().state_dict(), checkpoints / SqueezeNet1_1_Weights.DEFAULT.url.rpartition("/")[2])
    (tmp_path / "pretrained.py").write_text(read_template("pretrained-task"))
    assert registry.load_named([str(tmp_path / "pretrained.py")]) == ()
    return registry.get(Kind.TASK, "pretrained-digits")


def test_the_pretrained_task_conforms_without_warnings(pretrained):
    for check in applicable_checks(pretrained):
        check(pretrained)


def test_every_federation_starts_from_the_pretrained_weights(pretrained):
    one, other = (dict(new_model(pretrained.create(), seed).named_parameters()) for seed in (0, 1))
    assert torch.equal(one["2.0.weight"], other["2.0.weight"])
    assert not torch.equal(one["5.weight"], other["5.weight"])


def test_only_the_last_layer_of_the_pretrained_task_is_trained(pretrained):
    task = pretrained.create(participants=2, per_round=2, examples=8)
    federation = Federation(task, registry.get(Kind.ATTACK, "none").create(), defense("fedavg"), seed=0)
    updates = federation.train(federation.select())
    last = federation.model.columns.last_layer
    assert (updates[:, last] != 0).any()
    assert not np.delete(updates, np.arange(updates.shape[1])[last], axis=1).any()

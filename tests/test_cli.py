import json
import subprocess
import sys

import pytest

from fflbench import __version__
from fflbench.cli import main


def fflbench(capsys, *arguments):
    """The command in this process: exit code, standard output, standard error."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    printed = capsys.readouterr()
    return ended.value.code or 0, printed.out, printed.err


def test_help_loads_nothing_heavy():
    code = """
import sys
from fflbench.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
heavy = {"torch", "numpy", "sklearn", "pydantic"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "list" in done.stdout


@pytest.mark.parametrize("what", ["defenses", "transports", "preaggregations", "observations", "measures"])
def test_listing_does_not_load_torch(what):
    code = f"""
import sys
from fflbench.cli import main
try:
    main(["list", "{what}"])
except SystemExit:
    pass
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_version(capsys):
    assert fflbench(capsys, "--version") == (0, f"fflbench {__version__}\n", "")


def test_tables_are_the_summary_or_all(capsys):
    code, out, err = fflbench(capsys, "run", "quick", "--tables", "some")
    assert (code, out) == (2, "")
    assert "'--tables'" in err.splitlines()[-1]
    assert "'some' is not one of 'summary', 'all'" in err.splitlines()[-1]


def test_tasks_are_listed_with_counted_parameters(capsys, own_folders):
    code, out, _ = fflbench(capsys, "list", "tasks")
    assert code == 0
    for cell in ("2,410", "3,358", "4,929", "21,840", "14,728,266", "20 / 10 / 100", "label-flipping: source = 7"):
        assert cell in out
    assert "once its data is prepared" in out


def test_listing_downloads_nothing(capsys, own_folders, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("the network was used"))
    assert fflbench(capsys, "list", "tasks")[0] == 0


def content(folder):
    """Every file under a folder, with its bytes."""
    return {str(file.relative_to(folder)): file.is_file() and file.read_bytes() for file in folder.rglob("*")}


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_listing_prepares_and_writes_nothing(capsys, own_folders, own_registry, options):
    from fflbench.registration import task
    from fflbench.tasks import Task
    from tests.data.conftest import CONTENT, small_set

    (own_folders / "small").mkdir()
    for name, text in CONTENT.items():
        (own_folders / "small" / name).write_bytes(text)

    @task("small-mlp", title="Small")
    class Small(Task):
        """Has as many parameters as its data says."""

        data_set = small_set()
        classes = ("a", "b")
        model_from_data = True

        def model(self):
            from torch import nn

            return nn.Linear(self.data().facts["largest"], 1)

    before = content(own_folders.parent)
    code, out, err = fflbench(capsys, "list", "tasks", *options)
    assert content(own_folders.parent) == before
    assert code == 0
    assert "small-mlp" in out
    assert "prepared" in out or options
    assert "Checking" not in err
    Small().data()
    prepared = content(own_folders.parent)
    code, out, _ = fflbench(capsys, "list", "tasks", *options)
    assert ("5,000" in out) or ('"model_parameters": 5000' in out)
    assert content(own_folders.parent) == prepared


def test_listing_leaves_the_real_data_as_it_is(capsys, real, real_data, own_folders):
    sources = [file for file in real_data.glob("imdb/*") if file.is_file()]
    if not sources:
        pytest.skip("needs the real IMDB")
    (own_folders / "imdb").mkdir()
    for file in sources:
        (own_folders / "imdb" / file.name).write_bytes(file.read_bytes())
    before = content(own_folders.parent)
    code, out, _ = fflbench(capsys, "list", "tasks")
    assert code == 0
    assert "once its data is prepared" in out
    assert content(own_folders.parent) == before


def test_json_tells_everything(capsys, own_folders):
    _, out, _ = fflbench(capsys, "list", "tasks", "--json")
    task = {task["name"]: task for task in json.loads(out)}["adult-mlp"]
    assert task["model_parameters"] == 4929
    assert task["classes"] == ["<=50K", ">50K"]
    assert {
        "name": "rounds",
        "type": "int",
        "required": False,
        "default": 100,
        "meaning": "rounds of training",
    } in task["parameters"]


def test_markup_in_a_plugins_text_is_shown_as_it_is(capsys, own_registry, tmp_path):
    (tmp_path / "loud.py").write_text('''"""[bold red]No citation[/]"""
from fflbench.registration import rule
@rule("loud", title="Loud")
def loud(updates):
    """[link=file:///etc/passwd]click[/link]"""
''')
    code, out, _ = fflbench(capsys, "list", "defenses", "--plugin", str(tmp_path / "loud.py"))
    assert code == 0
    assert "[link=file:///etc/passwd]click[/link]" in out


def test_a_named_plugin_that_breaks_is_told_and_ends_in_an_error(capsys, own_registry, tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0")
    code, out, err = fflbench(capsys, "list", "tasks", "--json", "--plugin", str(tmp_path / "broken.py"))
    assert code == 1
    assert "broken.py could not be loaded and is left out: ZeroDivisionError" in err
    assert "digits-mlp" in out


def test_a_duplicate_name_is_one_sentence_and_an_error(capsys, own_registry, tmp_path):
    (tmp_path / "mine.py").write_text('''"""Mine."""
from fflbench.registration import task
from fflbench.tasks import Task
@task("digits-mlp", title="Mine")
class Mine(Task):
    classes = ("a", "b")
    def model(self): ...
''')
    code, _, err = fflbench(capsys, "list", "tasks", "--plugin", str(tmp_path / "mine.py"))
    assert code == 2
    assert err.count("\n") == 1
    assert 'task "digits-mlp" is registered twice' in err
    assert "mine.py" in err
    assert "digits_mlp.py" in err


def test_an_unknown_data_set_gets_the_nearest_one(capsys, own_folders):
    code, _, err = fflbench(capsys, "data", "fetch", "minst")
    assert code == 2
    assert 'there is no data set "minst"; did you mean "mnist"?' in err


def test_data_status_names_what_is_missing_and_what_is_damaged(capsys, own_folders, monkeypatch):
    (own_folders / "adult").mkdir()
    (own_folders / "adult/adult.data").write_text("39, State-gov")
    monkeypatch.delenv("FFLBENCH_DATA")
    code, out, err = fflbench(capsys, "data", "status", "--data-dir", str(own_folders))
    monkeypatch.setenv("FFLBENCH_DATA", str(own_folders))  # the command has set it; this makes pytest take it back
    assert code == 1
    assert "damaged" in out
    assert "missing" in out
    assert f"{own_folders}/adult/adult.data is not the adult.data of Adult: its sha256 is" in err


def test_without_a_network_one_sentence_says_which_file_to_put_where(capsys, own_folders, monkeypatch):
    from fflbench.data import datasets, mnist
    from tests.data.conftest import offered_at

    monkeypatch.setitem(datasets.DATASETS, "mnist", offered_at(mnist.MNIST, "http://127.0.0.1:1"))
    code, _, err = fflbench(capsys, "data", "fetch", "mnist")
    assert code == 2
    sentence = err.splitlines()[-1]
    assert "Connection refused" in sentence
    files = (
        "train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, t10k-labels-idx1-ubyte.gz"
    )
    assert f"put {files} into {own_folders}/mnist by hand" in sentence


def test_fetching_all_takes_every_set(capsys, own_folders, monkeypatch):
    fetched = []
    monkeypatch.setattr("fflbench.data.download.fetch", lambda data_set: fetched.append(data_set.name))
    code, out, _ = fflbench(capsys, "data", "fetch", "all")
    assert code == 0
    assert fetched == ["adult", "cifar10", "imdb", "mnist"]
    assert "MNIST is complete in" in out


def test_attacks_and_defenses_are_listed_with_all_that_is_known(capsys):
    _, out, _ = fflbench(capsys, "list", "attacks", "--json")
    noise = {entry["name"]: entry for entry in json.loads(out)}["gaussian-noise"]
    assert noise["knows"] == ["own data"]
    assert noise["version"] == 1
    _, out, _ = fflbench(capsys, "list", "attacks")
    for cell in (
        "gaussian-noise",
        "Li et al., RSA",
        "own data",
        "sigma (float, default 0.5): standard deviation",
    ):
        assert cell in " ".join(out.split())
    _, out, _ = fflbench(capsys, "list", "defenses")
    for cell in ("multi-krum", "Blanchard et al.", "f < (n - 2)/2", "fragment-exchange + reputation"):
        assert cell in " ".join(out.split())


def listed(capsys, what):
    _, out, _ = fflbench(capsys, "list", what, "--json")
    return {entry["name"]: entry for entry in json.loads(out)}


def test_defenses_are_all_that_a_suite_can_name_alone(capsys):
    found = listed(capsys, "defenses")
    rules = listed(capsys, "rules")
    assert set(found) == {"ffl", "ideal-secagg", "split-and-mix", *rules}
    assert found["ffl"]["parts"] == ["fragment-exchange", "reputation"]
    assert found["ffl"]["tolerates"] == rules["reputation"]["tolerates"]
    names = [parameter["name"] for parameter in found["ffl"]["parameters"]]
    assert "fragment-exchange.mode" in names
    assert "reputation.alpha" in names
    assert [parameter["name"] for parameter in found["trimmed-mean"]["parameters"]] == ["f"]


def test_transports_are_listed_with_what_a_server_sees_and_how_participants_can_deviate(capsys):
    found = listed(capsys, "transports")
    assert (found["plain"]["rows"], found["plain"]["deviation"]) == ("participant", [])
    assert found["ideal-secagg"]["rows"] == "sum"
    (strategy,) = (each for each in found["fragment-exchange"]["deviation"] if each["name"] == "strategy")
    assert (strategy["type"], strategy["default"]) == ("1 | 2 | 3", 1)
    _, out, _ = fflbench(capsys, "list", "transports")
    for cell in ("the sum of all updates", "strategy (1 | 2 | 3, default 1)"):
        assert cell in " ".join(out.split())


def test_preaggregations_and_observations_are_listed(capsys):
    assert "bound" in [each["name"] for each in listed(capsys, "preaggregations")["clipping"]["parameters"]]
    found = listed(capsys, "observations")
    assert (found["submission"]["knows"], found["submission"]["adaptive"]) == (["server view"], False)
    assert found["colluding-participant"]["adaptive"]


def test_a_task_that_cannot_be_built_is_told_and_the_rest_is_listed(capsys, own_registry, own_folders, tmp_path):
    (tmp_path / "bad.py").write_text('''"""Bad ones."""
from pathlib import Path
from fflbench.registration import task
from fflbench.tasks import Task
@task("bad-default", title="Bad default")
class BadDefault(Task):
    classes = ("a", "b")
    learning_rate = "fast"
    where: Path = Path("/")
    def model(self): ...
@task("bad-model", title="Bad model")
class BadModel(Task):
    classes = ("a", "b")
    def model(self):
        1 / 0
''')
    for options in ([], ["--json"]):
        code, out, err = fflbench(capsys, "list", "tasks", "--plugin", str(tmp_path / "bad.py"), *options)
        assert code == 1
        assert "digits-mlp" in out
        assert 'learning_rate = "fast" should be a valid number' in err
        assert 'task "bad-model": ParameterError: the model of BadModel cannot be counted: ZeroDivisionError' in err

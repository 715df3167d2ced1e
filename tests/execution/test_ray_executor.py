"""Cells on a real Ray cluster of two nodes, each with one processor."""

import itertools
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.execution.conftest import SUITE, kill_group, result_texts

pytest.importorskip("ray")

DEFENSES = '["fedavg", "median", "foolsgold"]'


class Nodes:
    """A cluster whose nodes can be added and killed."""

    def __init__(self, cache):
        # No node has data but those that are given some.
        here = {key: value for key, value in os.environ.items() if key != "FFLBENCH_DATA"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.execution.nodes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env=here | {"RAY_USAGE_STATS_ENABLED": "0", "XDG_CACHE_HOME": str(cache)},
        )
        self.names = set()

    def send_line(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def add(self, name, **environment):
        self.names.add(name)
        self.address = self.send_line(
            " ".join(["add", name, *(f"{key}={value}" for key, value in environment.items())])
        )

    def kill(self, name):
        self.names.remove(name)
        return self.send_line(f"kill {name}")

    def keep_only(self, **wanted):
        """Have just these besides the first."""
        for name in self.names - {"head"}:
            self.kill(name)
        for name, environment in wanted.items():
            self.add(name, **environment)

    def end(self):
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    nodes = Nodes(tmp_path_factory.mktemp("cache"))
    nodes.add("head")
    yield nodes
    nodes.end()


def on_ray(nodes, *arguments):
    return ["run", "own.toml", "--executor", "ray", "--address", nodes.address, *arguments]


def test_a_node_is_killed_in_mid_run_and_the_bits_are_those_of_one_machine(fflbench, nodes):
    nodes.keep_only(second={})
    # Slow cells take six seconds: killing a node on a busy machine takes one or two.
    fflbench.suite(SUITE.replace(DEFENSES, '["fedavg", "slow"]'), rounds=60)
    process = fflbench.start(*on_ray(nodes, "--plugin", "plugin.py", "--seeds", "0"))

    def under_way():
        now = fflbench.status()
        return now and any(each.where == "second" and each.round > 2 and "slow" in each.name for each in now.running)

    fflbench.wait_until(process, under_way)
    assert nodes.kill("second") == "killed"
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "node second is gone; retry 1 of 3" in err
    assert "raylet" not in out + err
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", "--out", "one", "--workers", "1")
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", "--out", "two", "--workers", "2")
    assert (
        result_texts(fflbench.records())
        == result_texts(fflbench.records(out="one"))
        == result_texts(fflbench.records(out="two"))
    )
    tables = [fflbench.folder / each / "own/tables.md" for each in ("results", "one", "two")]
    assert len({file.read_bytes() for file in tables}) == 1


def test_a_cell_that_loses_its_node_too_often_fails(fflbench, nodes):
    nodes.keep_only(second={})
    fflbench.suite(SUITE.replace(DEFENSES, '["slow"]'), rounds=60)
    process = fflbench.start(*on_ray(nodes, "--plugin", "plugin.py", "--retries", "0", "--seeds", "0"))
    fflbench.wait_until(
        process, lambda: (now := fflbench.status()) and "second" in [each.where for each in now.running]
    )
    nodes.kill("second")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "lost its node 1 times, last second (--retries)" in err
    assert sorted(record.status for record in fflbench.records().values()) == ["done", "failed"]


def test_cells_that_raise_die_or_hang_are_recorded_and_the_rest_goes_on(fflbench, nodes):
    nodes.keep_only(second={})
    fflbench.suite(SUITE.replace(DEFENSES, '["raises", "dies", "hangs", "median"]').replace('"none", ', ""))
    _, err = fflbench(*on_ray(nodes, "--plugin", "plugin.py", "--cell-timeout", "20s", "--seeds", "0"), code=1)
    found = {record.labels["defense"]: record for record in fflbench.records().values()}
    assert found["raises"].reason == "RuntimeError: this rule always fails"
    assert found["dies"].reason in ("the worker died (node head)", "the worker died (node second)")
    assert found["hangs"].reason == "took longer than 20 s (--cell-timeout)"
    assert found["median"].status == "done"
    assert err.count("\n  alone: fflbench run results/own/") == 3


def test_a_node_without_the_data_says_so_and_another_plays_the_cells(fflbench, nodes, real, tmp_path):
    real("adult")
    nodes.keep_only(poor={"FFLBENCH_DATA": tmp_path / "none"}, rich={"FFLBENCH_DATA": os.environ["FFLBENCH_DATA"]})
    fflbench.suite(SUITE.replace("digits-mlp", "adult-mlp").replace(DEFENSES, '["fedavg"]'))
    # The driver has none itself.
    nowhere = {"FFLBENCH_DATA": str(tmp_path / "nowhere"), "XDG_CACHE_HOME": str(tmp_path)}
    _, err = fflbench(*on_ray(nodes, "--seeds", "0,1,2"), **nowhere)
    looked = f"{tmp_path}/nowhere/adult or {tmp_path}/none/adult"
    assert f"node poor is excluded from such cells: Adult is not in {looked} on " in err
    assert len(fflbench.records()) == 6
    fflbench("run", "own.toml", "--seeds", "0,1,2", "--out", "here")
    assert result_texts(fflbench.records()) == result_texts(fflbench.records(out="here"))
    # Where the driver's folder is on a node too, it is found there.
    given = ("--data-dir", os.environ["FFLBENCH_DATA"], "--out", "given")
    _, err = fflbench(*on_ray(nodes, "--seeds", "0,1,2", *given), **nowhere)
    assert "is excluded from such cells" not in err
    assert result_texts(fflbench.records(out="given")) == result_texts(fflbench.records(out="here"))


def test_where_no_node_has_the_data_each_says_so_by_name(fflbench, nodes, tmp_path):
    nodes.keep_only(second={})
    also = '[[also]]\n[also.measure]\nuse = "communication"\n'
    fflbench.suite(SUITE.replace("digits-mlp", "mnist-cnn").replace(DEFENSES, '["fedavg"]') + also)
    lacks = {"FFLBENCH_DATA": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)}
    fflbench(*on_ray(nodes, "--seeds", "0"), code=1, **lacks)
    found = fflbench.records().values()
    # What needs no data is not kept from it.
    assert [record.labels["measure"] for record in found if record.status == "done"] == ["communication"]
    reasons = {record.reason for record in found if record.status == "failed"}
    assert len(reasons) == 1
    assert all(reason.startswith("no node can run it: ") for reason in reasons)
    assert all("node second: MNIST is not in " in reason and "node head: MNIST is not" in reason for reason in reasons)


def test_a_plugin_that_is_a_package_travels(fflbench, nodes):
    nodes.keep_only(second={})
    # Where only the driver would find it.
    package = fflbench.folder / "library/mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Mine."""\n')
    (package / "helper.py").write_text("def half(x):\n    return 0.5 * x\n")
    (package / "halved.py").write_text(
        '"""Halved."""\n'
        "from fflbench.registration import rule\n"
        "from mine.helper import half\n"
        '@rule("halved", title="Halved")\n'
        "def halved(updates):\n"
        '    """Half the mean."""\n'
        "    return half(updates.mean(0))\n"
    )
    fflbench.suite(SUITE.replace(DEFENSES, '["halved"]'))
    fflbench(*on_ray(nodes, "--plugin", "mine.halved"), PYTHONPATH=str(package.parent))
    assert [record.status for record in fflbench.records().values()] == ["done"] * 4


def test_a_defense_that_nodes_lack_fails_its_own_cells_only(fflbench, nodes):
    """It comes with a package that is installed where the run is started, and nowhere else."""
    nodes.keep_only(second={})
    library = fflbench.folder / "library"
    (library / "theirs-1.0.dist-info").mkdir(parents=True)
    (library / "theirs-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (library / "theirs-1.0.dist-info/entry_points.txt").write_text("[fflbench.plugins]\ntheirs = theirs\n")
    (library / "theirs.py").write_text(
        '"""Theirs."""\n'
        "from fflbench.registration import rule\n"
        '@rule("theirs", title="Theirs")\n'
        "def theirs(updates):\n"
        '    """The mean."""\n'
        "    return updates.mean(0)\n"
    )
    fflbench.suite(SUITE.replace(DEFENSES, '["theirs", "fedavg", "median"]'))
    fflbench(*on_ray(nodes, "--seeds", "0"), code=1, PYTHONPATH=str(library))
    found = {(r.labels["attack"], r.labels["defense"]): r for r in fflbench.records().values()}
    for attack in ("none", "label-flipping"):
        lacks = 'rule "theirs" is not registered'
        assert found[attack, "theirs"].reason.startswith("no node can run it: ")
        assert f"node head: {lacks}" in found[attack, "theirs"].reason
        assert f"node second: {lacks}" in found[attack, "theirs"].reason
        assert found[attack, "fedavg"].status == found[attack, "median"].status == "done"


def test_a_node_that_cannot_import_fflbench_gets_no_cells(fflbench, nodes, tmp_path):
    (tmp_path / "half/fflbench").mkdir(parents=True)
    (tmp_path / "half/fflbench/__init__.py").write_text("raise ImportError('half of it')\n")
    nodes.keep_only(broken={"PYTHONPATH": tmp_path / "half", "ADDRESS": "127.0.0.2"})
    fflbench.suite(SUITE.replace(DEFENSES, '["fedavg", "slow"]'), rounds=10)
    _, err = fflbench(*on_ray(nodes, "--plugin", "plugin.py"))
    assert err.count("node broken is excluded from such cells: fflbench cannot be imported there: ") == 1
    assert [record.status for record in fflbench.records().values()] == ["done"] * 8


def test_a_cluster_that_is_gone_is_one_sentence_and_what_is_finished_is_kept(fflbench, tmp_path):
    """It is killed as a power cut would; the run then goes on, on a Ray of its own."""
    gone = Nodes(tmp_path)
    gone.add("head")
    fflbench.suite(SUITE.replace(DEFENSES, '["fedavg", "slow"]'), rounds=30)
    process = fflbench.start(*on_ray(gone, "--plugin", "plugin.py", "--seeds", "0"))
    fflbench.wait_for_records(process, 1)
    kill_group(gone.process)
    gone.process.communicate()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "the Ray cluster is gone" in err.splitlines()[-1]
    assert "Traceback" not in err
    kept = fflbench.records()
    assert 0 < len(kept) < 4
    _, err = fflbench("run", "own.toml", "--executor", "ray", "--plugin", "plugin.py", "--seeds", "0")
    assert f"4 cells, {len(kept)} done already" in err
    fflbench("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", "--out", "here")
    assert result_texts(fflbench.records()) == result_texts(fflbench.records(out="here"))


def test_a_processor_has_one_cell_at_a_time(fflbench, nodes):
    """Though each of them waits for Ray now and then."""
    nodes.keep_only()
    fflbench.suite(SUITE.replace(DEFENSES, '["slow"]'), rounds=25)
    _, err = fflbench(*on_ray(nodes, "--plugin", "plugin.py", "--log-json"))
    events = [json.loads(line) for line in err.splitlines()]
    played = [each["cell"] for each in events if each["event"] == "progress"]
    # The end of one and the start of the next may be told in either order, but their rounds never take turns.
    assert len(list(itertools.groupby(played))) == len(set(played)) == 4


def test_stopped_once_cells_send_their_state_home_and_go_on_from_there(fflbench, nodes):
    """With rounds that take longer than it takes to be told."""
    nodes.keep_only(second={})
    fflbench.suite(SUITE.replace(DEFENSES, '["slower"]'), rounds=40)
    process = fflbench.start(*on_ray(nodes, "--plugin", "plugin.py", "--seeds", "0"))
    fflbench.wait_until(
        process,
        lambda: (now := fflbench.status()) and sum(each.round > 2 for each in now.running) == 2,
    )
    # Ray would take that for itself.
    kill_group(process, signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.count("stopped; its state is saved") == 2
    assert "Traceback" not in err
    assert len(list((fflbench.folder / "results/own").glob("*.checkpoint.npz"))) == 2
    # What was kept of a cluster's cells is as good on one machine.
    here = ("run", "own.toml", "--plugin", "plugin.py", "--seeds", "0", "--log-json")
    _, err = fflbench(*here, HURRY="1")
    rounds = [message["round"] for message in map(json.loads, err.splitlines()) if message["event"] == "progress"]
    assert min(rounds) > 2
    fflbench(*here, "--out", "here", HURRY="1")
    assert result_texts(fflbench.records()) == result_texts(fflbench.records(out="here"))


def test_a_cell_that_no_node_can_hold_is_told(fflbench, nodes):
    nodes.keep_only(second={})
    (fflbench.folder / "greedy.py").write_text(
        '"""Greedy."""\n'
        "from fflbench.execution import ray_executor\n"
        "from fflbench.registration import task\n"
        "from fflbench.tasks.digits_mlp import DigitsMLP\n"
        "ray_executor.MOST_WAIT_SECONDS = 1.0\n"
        '@task("greedy", title="Greedy")\n'
        "class Greedy(DigitsMLP):\n"
        '    """Digits that want a large machine."""\n'
        "    cpus = 64\n"
    )
    fflbench.suite(SUITE.replace('"digits-mlp"', '"digits-mlp", "greedy"').replace(DEFENSES, '["fedavg"]'))
    _, err = fflbench(*on_ray(nodes, "--plugin", "greedy.py", "--seeds", "0", "--set", "attacks=['none']"), code=1)
    assert "no node of the cluster has 64 processors, 0 GPUs and 500" in err
    assert sorted(record.status for record in fflbench.records().values()) == ["done", "failed"]

import math

import pytest

from fflbench import registry
from fflbench.errors import SuiteError
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import read
from tests.suites.own_suite import GOOD, cells


def test_a_suite_is_a_grid():
    found = cells(GOOD)
    assert len(found) == 2 * 2 * 2
    assert [str(cell) for cell in found[:3]] == [
        "digits-mlp · robustness · none · fedavg · seed 0",
        "digits-mlp · robustness · none · fedavg · seed 1",
        "digits-mlp · robustness · none · krum-3 · seed 0",
    ]
    last = found[-1].configuration
    assert last["task"]["parameters"]["rounds"] == 3
    assert last["measure"] == {"name": "robustness", "parameters": {}}
    assert last["attack"] == {
        "name": "gaussian-noise",
        "parameters": {"share": 0.2, "sigma": 0.1},
    }
    assert last["defense"] == {
        "transport": {"name": "plain", "parameters": {}},
        "preaggregations": [],
        "rule": {"name": "multi-krum", "parameters": {"f": 3, "m": None}},
    }
    assert last["seed"] == 1


def test_a_rule_may_appear_twice_under_a_label():
    text = GOOD.replace('"krum-3"]', '"krum-3", "multi-krum"]')
    names = [
        (cell.labels["defense"], cell.configuration["defense"]["rule"]["parameters"].get("f")) for cell in cells(text)
    ]
    assert ("krum-3", 3) in names
    assert ("multi-krum", "20%") in names


def test_a_list_of_values_makes_a_grid_too():
    found = cells(GOOD.replace("sigma = 0.1", "sigma = [0.1, 0.5]").replace("rounds = 3", "rounds = [3, 4]"))
    assert len(found) == 2 * 3 * 2 * 2
    assert {cell.labels["attack"] for cell in found} == {
        "none",
        "gaussian-noise (sigma = 0.1)",
        "gaussian-noise (sigma = 0.5)",
    }
    assert {cell.labels["task"] for cell in found} == {"digits-mlp (rounds = 3)", "digits-mlp (rounds = 4)"}


def test_a_numeric_list_on_a_parameter_is_a_sweep():
    sweep = "sigma = [0.5, 0.1, 2]\nshare = [0.1, 0.2]"
    found = cells(GOOD.replace("sigma = 0.1", sweep).replace("f = 3", 'f = [2, "20%"]'), "rounds=[3, 4]")
    noisy = [cell for cell in found if "attack" in cell.sweep]
    assert {cell.configuration["attack"]["name"] for cell in found if cell not in noisy} == {"none"}
    assert noisy[0].labels["attack"] == "gaussian-noise (sigma = 0.5, share = 0.1)"
    # The one with most values; the other one's stay in the label.
    assert noisy[0].sweep["attack"] == {"parameter": "sigma", "value": 0.5, "label": "gaussian-noise (share = 0.1)"}
    assert {cell.sweep["attack"]["value"] for cell in noisy} == {0.5, 0.1, 2}
    assert found[0].sweep["task"] == {"parameter": "rounds", "value": 3, "label": "digits-mlp"}
    # A list that holds something else than numbers is no axis.
    assert not any("defense" in cell.sweep for cell in found)


def test_of_several_lists_of_numbers_the_first_is_the_sweep_where_they_are_as_long():
    found = cells(GOOD.replace("sigma = 0.1", "share = [0.1, 0.2]\nsigma = [0.5, 0.1]"))
    assert {cell.sweep["attack"]["parameter"] for cell in found if cell.sweep} == {"share"}


def test_a_sweep_is_no_part_of_the_cell_id():
    single = cells(GOOD.replace("sigma = 0.1", "sigma = 0.5"))
    swept = cells(GOOD.replace("sigma = 0.1", "sigma = [0.5, 0.7]"))
    assert {cell.id for cell in single} < {cell.id for cell in swept}
    assert swept[-1].sweep
    assert not single[-1].sweep


def test_a_part_without_a_measure_is_of_robustness():
    part = '[[also]]\nattacks = ["dlg"]\n[also.measure]\nuse = "reconstruction"\n'
    found = cells(GOOD + part + '[[also]]\nattacks = ["label-flipping"]\n')
    assert [*dict.fromkeys(cell.labels["measure"] for cell in found)] == ["robustness", "reconstruction"]
    assert found[-1].labels["measure"] == "robustness"
    assert list(found[0].labels) == ["task", "measure", "attack", "defense"]


def test_one_task_may_have_fields_of_its_own():
    text = GOOD.replace('tasks = ["digits-mlp"]', 'tasks = ["digits-mlp", "long"]') + (
        '[task.long]\nuse = "digits-mlp"\nrounds = 50\n'
    )
    assert {cell.labels["task"]: cell.configuration["task"]["parameters"]["rounds"] for cell in cells(text)} == {
        "digits-mlp": 3,
        "long": 50,
    }


def test_the_id_follows_every_parameter_and_nothing_else():
    ids = {cell.id for cell in cells(GOOD)}
    assert len(ids) == 8
    assert ids == {cell.id for cell in cells(GOOD.replace("Own", "Other").replace("krum-3", "strict"))}
    for old, new in (("rounds = 3", "rounds = 4"), ("sigma = 0.1", "sigma = 0.2"), ("f = 3", "f = 2")):
        assert ids != {cell.id for cell in cells(GOOD.replace(old, new))}
    # 1 and 1.0 are the same sigma.
    assert {cell.id for cell in cells(GOOD, "attack.gaussian-noise.sigma=1")} == {
        cell.id for cell in cells(GOOD, "attack.gaussian-noise.sigma=1.0")
    }


def test_what_is_set_from_outside_wins():
    found = cells(GOOD, "rounds=7", "seeds=[5]", "defense.krum-3.f=1", 'defenses=["krum-3"]', "partition=shards")
    assert len(found) == 2
    parameters = found[0].configuration["task"]["parameters"]
    assert (parameters["rounds"], parameters["partition"], found[0].seed) == (7, "shards", 5)
    assert found[0].configuration["defense"]["rule"]["parameters"]["f"] == 1


@pytest.mark.parametrize(
    "setting", ["tasks=1", "attacks=1", "defenses=1", "attacks=true", 'defenses={"a" = 1}', "tasks=[[1]]"]
)
def test_a_list_of_names_that_is_set_to_something_else_is_refused(setting):
    with pytest.raises(SuiteError, match=f"own.toml: {setting.partition('=')[0]} = "):
        cells(GOOD, setting)


@pytest.mark.parametrize("setting", ["rounds", "=3", "a..b=3", "title.x=3", "seeds.x=3"])
def test_a_setting_that_makes_no_sense_is_refused(setting):
    with pytest.raises(SuiteError, match="--set"):
        cells(GOOD, setting)


@pytest.mark.parametrize("setting", ["x" * 5000, "title.x=" + "9" * 5000])
def test_a_long_setting_is_cut_where_it_is_refused(setting):
    with pytest.raises(SuiteError, match="--set") as refused:
        cells(GOOD, setting)
    assert len(str(refused.value)) < 300


def test_a_suite_that_is_not_there_gets_the_nearest_one(tmp_path):
    with pytest.raises(SuiteError, match='there is no suite or file "qick"; did you mean "quick"'):
        read("qick")
    with pytest.raises(SuiteError, match=r"nowhere\.toml cannot be read: No such file"):
        read(str(tmp_path / "nowhere.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(SuiteError, match=r"folder\.toml is a folder, not a file"):
        read(str(tmp_path / "folder.toml"))


@pytest.mark.parametrize("entry", registry.entries(Kind.SUITE), ids=lambda entry: entry.name)
def test_shipped_suites_plan(entry):
    found = plan(read(entry.name))
    assert found
    assert entry.title
    assert entry.summary
    if entry.name.startswith("paper-") and found[0].labels["measure"] == "robustness":
        reduced = entry.name.endswith("-reduced")
        last = {cell.configuration["task"]["parameters"]["average_last"] for cell in found}
        assert (last == {10}) != (reduced or entry.name == "paper-choices")
        assert {cell.labels.get("deviation") for cell in found} == {None, "strategy = 1", "strategy = 2"}


def test_reduced_suites_have_every_row_of_the_papers_tables_and_say_in_each_that_they_are_reduced():
    for name, task in {"imdb": "imdb-bilstm", "cifar10": "cifar10-vgg16"}.items():
        full, reduced = plan(read(f"paper-{name}")), plan(read(f"paper-{name}-reduced"))
        # Without attack the paper has FedAvg alone.
        clean = [cell for cell in full if cell.labels["attack"] == "none" and cell.labels["defense"] != "fedavg"]
        rows = {str(cell).replace(task, f"{task}-reduced") for cell in full if cell.seed == 0 and cell not in clean}
        assert {str(cell) for cell in reduced} == rows
        entry = registry.get(Kind.SUITE, f"paper-{name}-reduced")
        assert "reduced" in entry.title
        assert entry.summary.startswith("Reduced: ")


def test_adult_is_decided_at_a_probability_and_at_a_logit_of_a_half():
    thresholds = {
        cell.labels["task"]: cell.configuration["task"]["parameters"]["decision_threshold"]
        for cell in plan(read("paper-adult"))
    }
    assert thresholds == {"adult-mlp": 0.5, "adult-mlp-logit": pytest.approx(1 / (1 + math.exp(-0.5)), abs=1e-15)}


PARTS = (
    GOOD
    + """
[[also]]
tasks = ["digits-cnn"]
attacks = ["idlg"]
defenses = ["fedavg", "ffl"]
[also.attack.idlg]
steps = 9
[also.measure]
use = "reconstruction"
observation = ["submission", "pair-sum"]

[[also]]
attacks = ["label-flipping"]
"""
)


def test_a_suite_may_have_several_parts():
    whole, found = cells(GOOD), cells(PARTS)
    # Cells without attackers are scored for the goals of attacks in other parts too.
    assert [str(cell) for cell in found[: len(whole)]] == [str(cell) for cell in whole]
    assert [cell.id for cell in found[4 : len(whole)]] == [cell.id for cell in whole[4:]]
    rebuilt, flipped = found[len(whole) : -4], found[-4:]
    assert [(cell.labels["defense"], cell.seed) for cell in rebuilt] == [
        *[("fedavg", 0), ("fedavg", 1)],
        *[("ffl", 0), ("ffl", 1)] * 2,
    ]
    assert all(cell.configuration["privacy-attack"]["parameters"]["steps"] == 9 for cell in rebuilt)
    # What a part does not give is its suite's: tasks with their overrides, defenses with their tables, seeds.
    assert {cell.labels["defense"] for cell in flipped} == {"fedavg", "krum-3"}
    assert all(cell.configuration["task"]["parameters"]["rounds"] == 3 for cell in flipped)
    assert flipped[-1].configuration["defense"]["rule"]["parameters"]["f"] == 3


def test_seeds_from_outside_are_those_of_every_part_that_has_none_of_its_own():
    assert {cell.seed for cell in cells(PARTS, "seeds=[5]")} == {5}


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ('title = "x"', r"own.toml: \[\[also\]\] has no title of its own"),
        ('attacks = ["nonee"]', r'own.toml: \[\[also\]\] 1: attacks: .*"nonee" is not registered'),
        ("attack = 3", r"own.toml: \[\[also\]\] 1"),
        ('attacks = ["none"]', r"\[\[also\]\] 1: .* are the same cell under two labels"),
        ("defenses = 3", r"own.toml: \[\[also\]\] 1"),
    ],
)
def test_mistakes_in_a_part_name_it(part, told):
    with pytest.raises(SuiteError, match=told):
        cells(GOOD + "[[also]]\n" + part)


def test_also_must_be_tables():
    with pytest.raises(SuiteError, match="also"):
        cells(GOOD.replace("[overrides]", "also = 3\n[overrides]"))


def test_all_pairs_has_every_poisoning_attack_and_every_rule():
    suite = read("all-pairs")
    named = {part for label in suite.attacks for part in label.split(" + ")}
    # Without a digest of their source: those of fflbench.
    attacks = {entry.name for entry in registry.entries(Kind.ATTACK) if not entry.source}
    # It changes weights alone, which most rules ignore: their columns would repeat those of the wrapped attack.
    assert named - {*suite.attack} == attacks - {"overstated-examples"}
    rules = {entry.name for entry in registry.entries(Kind.RULE) if not entry.source}
    assert {*suite.defenses} - {"ffl"} == rules

import os
import tomllib
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fflbench import registration, registry
from fflbench.errors import FflbenchError, SuiteError
from fflbench.federation import Transport
from fflbench.records.parts import defense_name
from fflbench.registration import transport
from fflbench.registry import CHAINED, Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse, read

GOOD = """
title = "Own"
tasks = ["digits-mlp"]
attacks = ["none", "gaussian-noise"]
defenses = ["fedavg", "krum-3"]
seeds = [0, 1]

[overrides]
rounds = 3

[attack.gaussian-noise]
sigma = 0.1

[defense.krum-3]
use = "multi-krum"
f = 3
"""


def cells(text, *sets):
    return plan(parse(tomllib.loads(text), "own", "own.toml", sets))


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


BAD = {
    "unknown key": (GOOD.replace("seeds =", "sedes ="), 'own.toml has no key "sedes"; did you mean "seeds"?'),
    "missing key": (GOOD.replace("seeds = [0, 1]", ""), 'own.toml needs the key "seeds"'),
    "wrong type": (
        GOOD.replace('tasks = ["digits-mlp"]', 'tasks = "digits-mlp"'),
        'own.toml: tasks = "digits-mlp" should',
    ),
    "unknown task": (GOOD.replace("digits-mlp", "digit-mlp"), 'own.toml: tasks: task "digit-mlp" is not registered'),
    "unknown attack": (
        GOOD.replace("gaussian-noise", "gausian-noise"),
        'own.toml: [attack.gausian-noise]: attack "gausian-noise" is not registered; did you mean "gaussian-noise"?',
    ),
    "unknown defense": (
        GOOD.replace('"multi-krum"', '"multikrum"'),
        'own.toml: [defense.krum-3]: defense "multikrum" is not',
    ),
    "use that is no name": (GOOD.replace('"multi-krum"', "3"), "own.toml: [defense.krum-3]: use = 3 must be the name"),
    "empty grid": (GOOD.replace('["digits-mlp"]', "[]"), "own.toml: tasks = [] should have at least 1 item"),
    "impossible f": (
        GOOD.replace("f = 3", "f = 8"),
        'own.toml: [defense.krum-3] under none: rule "multi-krum" needs f <= n - 3',
    ),
    "unknown parameter": (
        GOOD.replace("sigma", "sgima"),
        'own.toml: [attack.gaussian-noise]: attack "gaussian-noise" has no',
    ),
    "ill-typed parameter": (GOOD.replace("sigma = 0.1", 'sigma = "x"'), "own.toml: [attack.gaussian-noise]: attack"),
    "unknown field": (GOOD.replace("rounds = 3", "ruonds = 3"), 'has no parameter "ruonds"; did you mean "rounds"?'),
    "more selected than there are": (GOOD.replace("rounds = 3", "per_round = 30"), "per_round = 30 is more than"),
    "more attackers than participants": (
        GOOD.replace("sigma = 0.1", "share = 1.5"),
        "share = 1.5 should be less than or",
    ),
    "nobody honest": (GOOD.replace("sigma = 0.1", "share = 1.0"), "leaves none of 20 participants honest"),
    "nobody attacks": (GOOD.replace("sigma = 0.1", "share = 0.02"), "leaves all of 20 participants honest"),
    "seeds that are no numbers": (
        GOOD.replace("[0, 1]", '["zero"]'),
        "own.toml: seeds = ['zero'] should be a valid integer",
    ),
    "negative seeds": (GOOD.replace("[0, 1]", "[-1]"), "own.toml: seeds = [-1] should be greater than or equal to 0"),
    "a seed twice": (GOOD.replace("[0, 1]", "[0, 0]"), "own.toml: seeds has 0 twice"),
    "a name twice": (GOOD.replace('"fedavg"', '"fedavg", "fedavg"'), "own.toml: defenses has 'fedavg' twice"),
    "parameters of nobody": (GOOD + "[defense.median]\n", "own.toml: [defense.median] is not among defenses"),
    "a table that is none": (GOOD.replace("[attack.gaussian-noise]\nsigma", "[attack]\nsigma"), "own.toml: attack = "),
    "one cell under two labels": (
        GOOD.replace('"fedavg"', '"fedavg", "again"') + '[defense.again]\nuse = "fedavg"\n',
        "are the same cell under two labels",
    ),
    "a star beside use that is no name": (
        GOOD.replace('"krum-3"]', '"krum-3", "*"]').replace('"multi-krum"', "[]"),
        "own.toml: [defense.krum-3]: use = [] must be the name of a registered defense",
    ),
    "a star beside use that is a table": (
        GOOD.replace('"krum-3"]', '"krum-3", "*"]').replace('"multi-krum"', "{a = 1}"),
        "own.toml: [defense.krum-3]: use = {'a': 1} must be the name of a registered defense",
    ),
    "a parameter called self": (GOOD.replace("f = 3", "self = 3"), 'has no parameter "self"'),
    "a label longer than any": (GOOD.replace("krum-3", "k" * 300), "has 300 letters, and must have 1 to 200"),
    "an empty label": (GOOD.replace('"krum-3"', '""').replace("krum-3", '""'), "own.toml: the label '' has 0 letters"),
    "an empty list of values": (
        GOOD.replace("sigma = 0.1", "sigma = []"),
        "own.toml: [attack.gaussian-noise]: sigma is an empty",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_suites_get_one_sentence_with_file_and_key(what):
    text, reason = BAD[what]
    with pytest.raises(SuiteError) as caught:
        cells(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [10**18, 10**30, 10**400, -(10**400)], ids=["large", "larger", "vast", "least"])
@pytest.mark.parametrize(
    "field",
    ["participants", "per_round", "rounds", "local_epochs", "batch_size", "shards", "average_last", "source", "target"],
)
def test_absurd_numbers_are_refused(field, number):
    given = [f"participants={10**6}"] if field == "per_round" else []
    with pytest.raises(SuiteError, match=f"{field} = "):
        cells(GOOD, *given, f"{field}={number}")
    with pytest.raises(SuiteError, match=f"{field} = "):
        cells(GOOD, *given, f"{field}=[3, {number}]")


@pytest.mark.parametrize("number", [10**30, 10**400, -(10**400), 2**63], ids=["large", "vast", "least", "one too many"])
@pytest.mark.parametrize(
    "key", ["seeds=[{}]", "defense.krum-3.f={}", "defense.krum-3.m={}", "attack.gaussian-noise.sigma={}"]
)
def test_absurd_numbers_are_refused_elsewhere_too(key, number):
    if "sigma" in key and abs(number) < 10**300:
        pytest.skip("a large deviation is a float like any other")
    with pytest.raises(SuiteError) as refused:
        cells(GOOD, key.format(number))
    assert len(str(refused.value)) < 1000


def test_absurd_parameters_of_every_measure_and_attack_end_in_a_sentence():
    for kind in (Kind.MEASURE, Kind.PRIVACY_ATTACK, Kind.ATTACK, *CHAINED):
        for entry in registry.entries(kind):
            for parameter in entry.parameters:
                # To a number with a fraction a large one is a number like any other.
                for number in [10**400, -(10**400)] + [10**30] * ("float" not in parameter.type):
                    with pytest.raises(FflbenchError):
                        entry.create(**{parameter.name: number})


def test_labels_of_a_hundred_chinese_letters_are_labels():
    label = "中" * 100
    found = cells(GOOD.replace('"krum-3"', f'"{label}"').replace("krum-3", f'"{label}"'))
    assert {cell.labels["defense"] for cell in found} == {"fedavg", label}


@pytest.mark.parametrize("content", [b"= = =", b"\xff\xfe\x00", b"a = [" * 2000])
def test_what_is_no_toml_is_told(tmp_path, content):
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(SuiteError, match=r"bad\.toml is not a TOML file"):
        read(str(tmp_path / "bad.toml"))


def test_a_suite_that_is_no_file_or_too_large_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(SuiteError, match=r"pipe\.toml is a named pipe, not a file"):
        read(str(tmp_path / "pipe.toml"))
    (tmp_path / "zeros.toml").symlink_to("/dev/zero")
    with pytest.raises(SuiteError, match=r"zeros\.toml is a device, not a file"):
        read(str(tmp_path / "zeros.toml"))
    with (tmp_path / "sparse.toml").open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(SuiteError, match=r"sparse\.toml is larger than 10,000,000 bytes"):
        read(str(tmp_path / "sparse.toml"))


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
        assert all(cell.configuration["task"]["parameters"]["average_last"] == 10 for cell in found)
        assert {cell.labels.get("deviation") for cell in found} == {None, "strategy = 1", "strategy = 2"}


PIECES = st.sampled_from(
    [
        *"[]{}\"'=.,\n #-_01",
        "tasks",
        "seeds",
        "true",
        "1e999",
        "nan",
        "[defense.krum-3]",
        "use",
        "f = 3",
        "\x00",
        "é",
        '"""',
        "inf",
    ]
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_no_mutated_suite_ends_in_a_traceback(data):
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + "".join(data.draw(st.lists(PIECES, max_size=4))) + text[end:]
    try:
        content = tomllib.loads(text)
    except ValueError:
        return
    with suppress(FflbenchError):
        plan(parse(content, "own", "own.toml"))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates()
    | st.sampled_from(["fedavg", "none"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.sampled_from(
        ["tasks", "attacks", "defenses", "seeds", "overrides", "task", "attack", "defense", "deviation", "title"]
    ),
    VALUES,
)
def test_no_value_of_the_wrong_kind_ends_in_a_traceback(key, value):
    with suppress(FflbenchError):
        plan(parse({**tomllib.loads(GOOD), key: value}, "own", "own.toml"))


MEASURED = {
    "tasks": ["digits-mlp"],
    "defenses": ["fedavg", "median"],
    "seeds": [0],
    "measure": {"use": "runtime", "updates": [4, 8]},
}


def measurable():
    """All rules and named chains."""
    return sorted(entry.name for kind in (Kind.RULE, Kind.DEFENSE) for entry in registry.entries(kind))


def measured(**changes):
    return plan(parse(MEASURED | changes, "own", "own.toml"))


def test_a_measure_takes_the_place_of_attacks():
    found = measured()
    assert [str(cell) for cell in found] == [
        f"digits-mlp · runtime (updates = {n}) · {name} · seed 0" for n in (4, 8) for name in ("fedavg", "median")
    ]
    assert found[0].configuration["measure"] == {
        "name": "runtime",
        "parameters": {"updates": 4, "repeats": 5, "patience": 20.0, "threads": 1},
    }
    assert found[0].measure.alone


def test_a_star_stands_for_every_other_defense():
    found = measured(defenses=["median", "ffl", "nnm + median", "*"])
    names = [cell.labels["defense"] for cell in found[: len(found) // 2]]
    assert names[:3] == ["median", "ffl", "nnm + median"]
    assert sorted(names) == sorted([*measurable(), "nnm + median"])


def test_a_star_leaves_out_what_stands_under_a_label_and_takes_tables():
    tables = {"krum": {"f": 1}, "mid": {"use": "median"}, "whole": {"use": "fragment-exchange + reputation"}}
    found = measured(defenses=["mid", "whole", "*"], defense=tables, measure={"use": "runtime"})
    names = [defense_name(cell.configuration["defense"]) for cell in found]
    assert sorted(names) == measurable()
    assert [cell.labels["defense"] for cell in found[:2]] == ["mid", "whole"]
    (krum,) = (cell for cell in found if cell.labels["defense"] == "krum")
    assert krum.configuration["defense"]["rule"]["parameters"]["f"] == 1


def test_a_star_leaves_out_chains_that_show_a_sum_or_need_what_is_not_installed(own_registry):
    @transport("lacking", title="Lacking")
    class Lacking(Transport):
        """Needs a package that nobody has."""

        @staticmethod
        def missing():
            return "lacking needs nothing-of-the-kind"

    registration.chain("lacking-median", "lacking + median", title="Lacking")
    registration.chain("hidden", "ideal-secagg + fedavg", title="Hidden")
    names = {cell.labels["defense"] for cell in measured(defenses=["*"])}
    assert names == set(measurable()) - {"lacking-median", "hidden"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attacks": ["none"]}, 'measure "runtime" runs no attacks: leave them out'),
        ({"measure": {"use": "reconstruction"}}, 'measure "reconstruction" needs attacks'),
        ({"measure": {}}, 'measure "robustness" needs attacks'),
        ({"measure": {"use": "*"}}, r'\[measure\]: measure "\*" is not registered'),
        ({"tasks": ["*"]}, r'task "\*" is not registered'),
        (
            {"measure": {"use": "runtime", "updates": 3}, "defenses": ["ffl"]},
            "a multiple of 2",
        ),
        ({"measure": {"use": "runtme"}}, r'\[measure\]: measure "runtme" is not registered; did you mean "runtime"'),
        ({"measure": {"use": 3}}, r"\[measure\]: use must be the name of a measure"),
        ({"measure": {"updates": 3}}, r'\[measure\]: measure "robustness" has no parameter "updates"'),
        (
            {"measure": {"use": "runtime", "update": 3}},
            r'\[measure\]: .* no parameter "update"; did you mean "updates"',
        ),
        (
            {"defenses": ["ffl"], "defense": {"ffl": {"mode": "fast"}}},
            r"\[defense.ffl\]: its cost cannot be measured as it is set: that leaves out keys",
        ),
        (
            {"defenses": ["multi-krum"], "measure": {"use": "runtime", "updates": 2}},
            r"\[defense.multi-krum\]: .* needs",
        ),
    ],
)
def test_a_measure_that_makes_no_sense_is_told(changes, sentence):
    with pytest.raises(SuiteError, match=f"own.toml.*{sentence}"):
        measured(**changes)


def test_the_papers_cost_suites_hold_what_its_tables_do():
    runtime = plan(read("paper-runtime"))
    assert len(runtime) == 4 * 3 * (len(measurable()) + 1)
    communication = plan(read("paper-communication"))
    assert [str(cell) for cell in communication] == [
        f"{task} · communication · {defense} · seed 0"
        for task in ("mnist-cnn", "cifar10-vgg16")
        for defense in ("fedavg", "ffl")
    ]


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
    assert [cell.id for cell in found[: len(whole)]] == [cell.id for cell in whole]
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

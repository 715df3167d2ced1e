import os
import tomllib
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fflbench import registry
from fflbench.errors import FflbenchError, SuiteError
from fflbench.registry import CHAINED, Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse, read
from tests.suites.own_suite import GOOD, cells

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
    [
        *("participants", "per_round", "rounds", "local_epochs", "local_steps", "batch_size"),
        *("shards", "average_last", "examples"),
    ],
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

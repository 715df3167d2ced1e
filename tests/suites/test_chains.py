"""Suites of chains: parameters of their parts, how participants deviate, and cells that defenses share."""

import dataclasses
import tomllib

import pytest

from fflbench.errors import SuiteError
from fflbench.federation import Deviation, Transport
from fflbench.registration import transport
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse

CHAINS = """
tasks = ["digits-mlp"]
attacks = ["none", "gaussian-noise"]
defenses = ["fedavg", "nnm + trimmed-mean", "careful"]
seeds = [0]

[defense.careful]
use = "fragment-exchange + clipping + median"
clipping.bound = 2.5
"""


def cells(text, *sets):
    return plan(parse(tomllib.loads(text), "own", "own.toml", sets))


def defenses(found):
    """Configurations by label."""
    return {cell.labels["defense"]: cell.configuration["defense"] for cell in found}


# Chains


def test_a_chain_is_a_transport_preaggregations_and_a_rule_each_with_its_parameters():
    found = defenses(cells(CHAINS))
    assert found["nnm + trimmed-mean"] == {
        "transport": {"name": "plain", "parameters": {}},
        "preaggregations": [{"name": "nnm", "parameters": {"f": "20%"}}],
        "rule": {"name": "trimmed-mean", "parameters": {"f": "20%"}},
    }
    assert found["careful"]["transport"]["name"] == "fragment-exchange"
    assert found["careful"]["preaggregations"] == [{"name": "clipping", "parameters": {"bound": 2.5}}]
    assert found["careful"]["rule"] == {"name": "median", "parameters": {}}


def test_a_parameter_at_the_top_goes_to_every_part_that_has_it_and_one_part_may_differ():
    text = CHAINS + '[defense."nnm + trimmed-mean"]\nf = 2\nnnm.f = 1\n'
    found = defenses(cells(text))["nnm + trimmed-mean"]
    assert found["preaggregations"][0]["parameters"]["f"] == 1
    assert found["rule"]["parameters"]["f"] == 2


def test_a_list_of_values_of_one_part_is_a_grid_and_a_sweep():
    found = cells(CHAINS.replace("bound = 2.5", "bound = [2, 3.5]") + "weighting = 'equal'\n")
    careful = [cell for cell in found if "careful" in cell.labels["defense"]]
    assert [cell.labels["defense"] for cell in careful[:2]] == [
        "careful (clipping.bound = 2)",
        "careful (clipping.bound = 3.5)",
    ]
    assert careful[0].sweep["defense"] == {"parameter": "clipping.bound", "value": 2.0, "label": "careful"}
    assert careful[1].configuration["defense"]["preaggregations"][0]["parameters"]["bound"] == 3.5
    assert careful[1].configuration["defense"]["transport"]["parameters"]["weighting"] == "equal"


def test_a_list_at_the_top_sweeps_all_parts_together():
    found = cells(CHAINS + '[defense."nnm + trimmed-mean"]\nf = [1, 2]\n')
    swept = [cell for cell in found if cell.sweep]
    assert {cell.labels["defense"] for cell in swept} == {"nnm + trimmed-mean (f = 1)", "nnm + trimmed-mean (f = 2)"}
    for cell in swept:
        of_parts = [*cell.configuration["defense"]["preaggregations"], cell.configuration["defense"]["rule"]]
        assert {part["parameters"]["f"] for part in of_parts} == {cell.sweep["defense"]["value"]}


def test_parameters_of_parts_are_set_from_outside():
    found = defenses(cells(CHAINS, "defense.careful.clipping.bound=3", "defense.careful.mode=full"))
    assert found["careful"]["preaggregations"][0]["parameters"]["bound"] == 3.0
    assert found["careful"]["transport"]["parameters"]["mode"] == "full"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "+ median",
            "+ medain",
            '[defense.careful]: defense "medain" of "fragment-exchange + clipping + medain" is not registered; '
            'did you mean "median"?',
        ),
        ('"nnm + trimmed-mean"', '"nmn + median"', 'defenses: defense "nmn" of "nmn + median" is not registered'),
        ('"nnm + trimmed-mean"', '"median + nnm"', 'defenses: "median + nnm" must end with a rule'),
        (
            '"nnm + trimmed-mean"',
            '"ideal-secagg + median"',
            "median needs rows, and ideal-secagg shows the server only",
        ),
        (
            "clipping.bound = 2.5",
            "clipping.bund = 2.5",
            '[defense.careful]: preaggregation "clipping" has no parameter',
        ),
        ("clipping.bound = 2.5", "bund = 2.5", 'has no parameter "bund"; did you mean "bound"?'),
        ("clipping.bound = 2.5", "clipping.bound = []", "[defense.careful]: clipping.bound is an empty list of values"),
        ("clipping.bound = 2.5", "clipping.bound = -1", "[defense.careful]: preaggregation"),
        ("clipping.bound = 2.5", "nnm.f = 2", '[defense.careful]: defense "fragment-exchange + clipping + median" has'),
        ("clipping.bound = 2.5", "clipping.bound.x = 2", "[defense.careful]: preaggregation"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused_in_a_sentence(old, new, sentence):
    with pytest.raises(SuiteError) as refused:
        cells(CHAINS.replace(old, new))
    assert str(refused.value).startswith("own.toml: ")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_chain_may_not_stand_there_twice_under_two_texts():
    with pytest.raises(SuiteError, match="are the same cell under two labels"):
        cells(CHAINS.replace('"fedavg"', '"fedavg", "ffl", "fragment-exchange + reputation"'))


COST = """
tasks = ["digits-mlp"]
defenses = ["fedavg", "fast", "ffl"]
seeds = [0]
[measure]
use = "communication"
[defense.fast]
use = "ffl"
"""


def test_measures_of_cost_run_every_message_unless_the_suite_says_otherwise():
    found = defenses(cells(COST.replace('"fast", ', "").replace('[defense.fast]\nuse = "ffl"\n', "")))
    assert found["ffl"]["transport"]["parameters"]["mode"] == "full"
    with pytest.raises(SuiteError, match=r"\[defense.fast\]: its cost cannot be measured with these parameters"):
        cells(COST + 'mode = "fast"\n')
    with pytest.raises(SuiteError, match=r"\[defense.fast\]: its cost cannot be measured with these parameters"):
        cells(COST + 'fragment-exchange.mode = "fast"\n')


def test_robustness_runs_without_keys():
    assert defenses(cells(CHAINS))["careful"]["transport"]["parameters"]["mode"] == "fast"


# Deviations


@dataclasses.dataclass(frozen=True, kw_only=True)
class Leave(Deviation):
    """Some participants leave, attackers or not."""

    share: float = 0.5
    quietly: bool = False

    @property
    def needs_attackers(self):
        return self.quietly


@pytest.fixture
def leaving(own_registry):
    @transport("leaving", title="Leaving")
    class Leaving(Transport):
        """A transport that participants can leave."""

        deviation = Leave


DEVIATING = """
tasks = ["digits-mlp"]
attacks = ["none", "gaussian-noise"]
defenses = ["fedavg", "ffl"]
seeds = [0]
[deviation.fragment-exchange]
strategy = [1, 2]
"""


def labelled(found):
    return [(cell.labels["attack"], cell.labels["defense"], cell.labels.get("deviation")) for cell in found]


def test_deviations_are_part_of_a_cell_only_where_attackers_use_their_transport():
    found = cells(DEVIATING)
    assert labelled(found) == [
        ("none", "fedavg", None),
        ("none", "ffl", None),
        ("gaussian-noise", "fedavg", None),
        ("gaussian-noise", "ffl", "strategy = 1"),
        ("gaussian-noise", "ffl", "strategy = 2"),
    ]
    assert found[-1].configuration["deviation"] == {
        "name": "fragment-exchange",
        "parameters": {"strategy": 2, "avoid_each_other": False, "lone_sender": False, "abort": False},
    }
    assert "deviation" not in found[1].configuration
    assert found[-1].deviation.strategy == 2
    assert found[1].deviation is None
    assert found[-1].created()["deviation"] == found[-1].deviation
    assert str(found[-1]) == "digits-mlp · robustness · gaussian-noise · ffl · strategy = 2 · seed 0"


def test_cells_without_deviations_are_those_of_a_suite_without_any():
    plain = {cell.id for cell in cells(DEVIATING.partition("[deviation")[0])}
    assert {cell.id for cell in cells(DEVIATING) if "deviation" not in cell.labels} < plain


def test_the_label_of_a_deviation_names_all_that_was_set():
    found = cells(DEVIATING.replace("[1, 2]", "3") + "abort = true\n")
    assert found[-1].labels["deviation"] == "strategy = 3, abort = True"
    assert found[-1].sweep == {}
    assert len(found) == 4


def test_a_deviation_of_everybody_needs_no_attackers(leaving):
    text = DEVIATING.replace("[deviation.fragment-exchange]\nstrategy = [1, 2]", "[deviation.leaving]")
    text = text.replace('"ffl"', '"leaving + median"')
    assert labelled(cells(text))[1] == ("none", "leaving + median", "share = 0.5, quietly = False")
    assert labelled(cells(text + "quietly = true"))[1] == ("none", "leaving + median", None)
    several = [label for attack, defense, label in labelled(cells(text + "share = [0.1, 0.2]")) if label]
    assert several == ["share = 0.1", "share = 0.2"] * 2


def test_parts_of_a_suite_have_deviations_of_their_own():
    part = '[[also]]\nattacks = ["label-flipping"]\n'
    assert labelled(cells(DEVIATING + part))[-1] == ("label-flipping", "ffl", None)
    own = "[also.deviation.fragment-exchange]\nlone_sender = true\n"
    assert labelled(cells(DEVIATING + part + own))[-1] == ("label-flipping", "ffl", "lone_sender = True")


def test_deviations_are_set_from_outside():
    found = cells(DEVIATING, "deviation.fragment-exchange.strategy=3")
    assert [cell.labels["deviation"] for cell in found if "deviation" in cell.labels] == ["strategy = 3"]
    assert labelled(cells(DEVIATING, 'defenses=["fedavg"]'))[-1] == ("gaussian-noise", "fedavg", None)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "[deviation.fragment-exchange]",
            "[deviation.fragment-exchnge]",
            '[deviation.fragment-exchnge]: transport "fragment-exchnge" is not registered; did you mean '
            '"fragment-exchange"?',
        ),
        ("[deviation.fragment-exchange]", "[deviation.plain]", 'transport "plain" knows no deviations'),
        ('"ffl"]', '"median"]', '[deviation.fragment-exchange]: no defense here has the transport "fragment-exchange"'),
        ("strategy = [1, 2]", "strategy = [1, 4]", '[deviation.fragment-exchange]: deviation "fragment-exchange": str'),
        ("strategy = [1, 2]", "stategy = 1", 'has no parameter "stategy"; did you mean "strategy"?'),
        ("strategy = [1, 2]", "strategy = []", "[deviation.fragment-exchange]: strategy is an empty list of values"),
        (
            'attacks = ["none", "gaussian-noise"]',
            'attacks = ["dlg"]\nmeasure.use = "reconstruction"',
            'measure "reconstruction" runs no poisoning attacks, so that nobody deviates',
        ),
    ],
)
def test_a_deviation_that_makes_no_sense_is_refused_in_a_sentence(old, new, sentence):
    with pytest.raises(SuiteError) as refused:
        cells(DEVIATING.replace(old, new))
    assert str(refused.value).startswith("own.toml: ")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


# Shared cells


SHARED = """
tasks = ["digits-mlp"]
attacks = ["analytic"]
defenses = ["fedavg", "median", "trimmed", "ffl"]
seeds = [0]
[measure]
use = "reconstruction"
[defense.trimmed]
use = "nnm + trimmed-mean"
f = [1, 2]
"""


def test_defenses_that_share_all_that_a_measure_depends_on_share_its_cells():
    plain, mixed = cells(SHARED)
    assert plain.configuration["defense"] == {"transport": {"name": "plain", "parameters": {}}}
    assert plain.labels["defense"] == "fedavg"
    assert plain.shared_by == {"median": {}, "trimmed (f = 1)": {}, "trimmed (f = 2)": {}}
    assert not plain.sweep
    assert (mixed.labels["defense"], mixed.shared_by) == ("ffl", {})
    assert plain.defense.rule.entry.name == "fedavg"


def test_a_row_more_or_less_changes_no_shared_cell():
    assert cells(SHARED.replace('"median", ', ""))[0].id == cells(SHARED)[0].id


def test_parameters_of_a_shared_part_are_still_a_sweep_of_every_row():
    text = SHARED.replace(
        'use = "nnm + trimmed-mean"\nf = [1, 2]', 'use = "fragment-exchange + median"\nwarmup = [0, 1]'
    )
    found = cells(text.replace('"ffl"]', '"whole"]') + '[defense.whole]\nuse = "ffl"\nwarmup = [0, 1]\n')
    swept = {"parameter": "warmup", "value": 1, "label": "trimmed"}
    assert found[-1].sweep["defense"] == swept
    assert found[-1].shared_by == {"whole (warmup = 1)": {**swept, "label": "whole"}}


def test_parts_of_a_suite_share_cells_too():
    part = '[[also]]\nattacks = ["analytic"]\ndefenses = ["krum"]\n[also.measure]\nuse = "reconstruction"\n'
    assert list(cells(SHARED + part)[0].shared_by)[-1] == "krum"


@pytest.mark.parametrize(
    "part",
    [
        # The same row twice.
        '[[also]]\nattacks = ["analytic"]\ndefenses = ["median"]\n[also.measure]\nuse = "reconstruction"\n',
        # Another name for the attack.
        '[[also]]\nattacks = ["other"]\ndefenses = ["krum"]\n[also.attack.other]\nuse = "analytic"\n'
        '[also.measure]\nuse = "reconstruction"\n',
    ],
)
def test_a_cell_that_is_the_same_in_another_respect_is_refused(part):
    with pytest.raises(SuiteError, match="are the same cell under two labels"):
        cells(SHARED + part)

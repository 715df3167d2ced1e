import pytest

from fflbench import registration, registry
from fflbench.errors import SuiteError
from fflbench.federation import Transport
from fflbench.records.cell_configuration import defense_name
from fflbench.registration import transport
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse, read

MEASURED = {
    "tasks": ["digits-mlp"],
    "defenses": ["fedavg", "median"],
    "seeds": [0],
    "measure": {"use": "runtime", "updates": [4, 8]},
}


def measurable():
    """All rules and named chains that need no examples at the server."""
    entries = [entry for kind in (Kind.RULE, Kind.DEFENSE) for entry in registry.entries(kind)]
    return sorted(entry.name for entry in entries if not entry.root_update)


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
        def missing_dependency():
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
            r"\[defense.ffl\]: its cost cannot be measured with these parameters, which leave out keys",
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
    other_head = [cell for cell in runtime if cell.labels["task"] == "cifar10-vgg16-7x7"]
    assert len(runtime) - len(other_head) == 4 * 3 * 6
    assert len(other_head) == 3 * 6
    communication = plan(read("paper-communication"))
    assert [str(cell) for cell in communication] == [
        *(
            f"{task} · communication · {defense} · seed 0"
            for task in ("mnist-cnn", "cifar10-vgg16", "imdb-bilstm")
            for defense in ("fedavg", "ffl")
        ),
        *(
            f"digits-mlp · communication (updates = {n}) · {defense} · seed 0"
            for n in (2, 10, 50)
            for defense in ("fedavg", "ffl")
        ),
    ]


def test_the_published_reconstruction_is_a_suite():
    for cell in plan(read("paper-reconstruction-full")):
        task, attack, measure = (
            cell.configuration[kind]["parameters"] for kind in ("task", "privacy-attack", "measure")
        )
        assert (task["width"], task["participants_hold"]) == (64, "test")
        assert (attack["steps"], attack["known_labels"], measure["local_steps"]) == (24_000, True, 5)

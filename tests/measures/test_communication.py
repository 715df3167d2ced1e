"""The ledger of real messages, and the paper's communication table out of it."""

import pytest

from fflbench import registry
from fflbench.federation.chain import defense
from fflbench.measures import Context, published_results
from fflbench.measures.network_time import NetworkSpeed, brea_seconds
from fflbench.registry import Kind

PAPERS = NetworkSpeed(download=31.01, upload=8.66, latency=29)


def run_communication(task, text, settings=(), **parameters):
    measure = registry.get(Kind.MEASURE, "communication").create(**dict(settings))
    outcome = measure.run(Context(registry.get(Kind.TASK, task).create(), defense(text, **parameters), seed=0))
    assert set(outcome.metrics) == {metric.name for metric in measure.metrics}
    return outcome


def printed_seconds(task, defense):
    """The paper's table "Comparison of communication time", by part."""
    figures = published_results.find_figures(table="tab:communication_time", task=task, defense=defense)
    parts = {"S-P": "server", "P-P": "between", "Latency": "latency", "Total time": "total"}
    return {parts[figure.column]: figure.number for figure in figures}


@pytest.fixture(scope="module")
def outcomes():
    """Fedavg and ffl on both of the paper's models."""
    return {
        (task, name): run_communication(task, name, **({"mode": "full"} if name == "ffl" else {}))
        for task in ("mnist-cnn", "cifar10-vgg16")
        for name in ("fedavg", "ffl")
    }


@pytest.mark.parametrize("name", ["fedavg", "ffl"])
@pytest.mark.parametrize("task", ["mnist-cnn", "cifar10-vgg16"])
def test_counted_the_papers_way_the_messages_give_the_papers_figures(outcomes, task, name):
    seconds = outcomes[task, name].facts["seconds"]["papers_way"]
    printed_parts = printed_seconds(task, name)
    assert set(printed_parts) == set(seconds)
    for part, printed in printed_parts.items():
        assert seconds[part] == pytest.approx(printed, abs=6e-5), part


@pytest.mark.parametrize(("task", "size"), [("mnist-cnn", 87_400), ("cifar10-vgg16", 58_913_100)])
def test_brea_by_the_papers_formula_gives_the_papers_figures(task, size):
    seconds = brea_seconds(PAPERS, size, 100_000)
    printed = printed_seconds(task, "brea")
    assert seconds.server == pytest.approx(printed["server"], abs=6e-5)
    assert seconds.between == pytest.approx(printed["between"], rel=1e-8)
    assert seconds.total == pytest.approx(printed["total"], rel=1e-8)


def test_three_messages_between_two_participants_are_one_latency_less_than_the_paper_charges(outcomes):
    for task, ours in (("mnist-cnn", 0.5728), ("cifar10-vgg16", 287.4610)):
        seconds = outcomes[task, "ffl"].facts["seconds"]
        assert seconds["rounded"]["total"] == pytest.approx(ours, abs=6e-5)
        assert seconds["papers_way"]["total"] - seconds["rounded"]["total"] == pytest.approx(0.029)
        assert outcomes[task, "ffl"].facts["messages_per_participant"] == {"down": 1, "up": 1, "between": 3}


def test_bytes_are_those_of_the_protocol(outcomes):
    vector = 4 * 21_840
    sizes = outcomes["mnist-cnn", "ffl"].facts["bytes_per_participant"]
    assert {kind: size for kind, size in sizes["between"].items() if kind != "framing"} == {
        "power": 2 * 256,
        "sealed seed": 2 * 384,
        "masked vector": 4 * vector,
        "mac": 2 * 32,
    }
    assert (sizes["up"]["mixed update"], sizes["up"]["sealed seed"]) == (vector, 384)
    assert (sizes["down"]["global model"], sizes["down"]["feedback"]) == (vector, 4)
    plain = outcomes["mnist-cnn", "fedavg"].facts["bytes_per_participant"]
    assert (plain["down"]["global model"], plain["up"]["update"], plain["between"]) == (vector, vector, {})


def test_what_is_sent_includes_buffers_macs_and_framing(outcomes):
    vgg = outcomes["cifar10-vgg16", "ffl"]
    assert vgg.facts["columns"] == 14_736_714
    assert vgg.facts["model_bytes"] == 4 * 14_728_266
    assert vgg.metrics["seconds"] > vgg.metrics["seconds_before_macs_and_framing"]
    sizes = vgg.facts["bytes_per_participant"]
    assert vgg.metrics["bytes"] == sum(sum(kinds.values()) for kinds in sizes.values())


def test_every_kind_of_content_is_recorded_with_its_meaning(outcomes):
    for outcome in outcomes.values():
        kinds = {kind for sizes in outcome.facts["bytes_per_participant"].values() for kind in sizes}
        assert kinds == set(outcome.facts["kinds"])
    assert outcomes["mnist-cnn", "fedavg"].facts["kinds"]["update"] == "An update submitted as it is"


def test_more_participants_do_not_change_what_one_sends(outcomes):
    ten = run_communication("mnist-cnn", "ffl", {"updates": 10}.items(), mode="full")
    assert ten.facts["bytes_per_participant"] == outcomes["mnist-cnn", "ffl"].facts["bytes_per_participant"]


def test_another_network_takes_another_time():
    fast = run_communication("mnist-cnn", "fedavg", {"download": 100.0, "upload": 50.0, "latency": 5.0}.items())
    size = 8 * (4 * 21_840 + 25) / 1e6
    assert fast.metrics["seconds"] == pytest.approx(size / 100 + size / 50 + 0.01)

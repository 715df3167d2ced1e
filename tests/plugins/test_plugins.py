"""Parts of chains from outside, each in one file: a transport with two servers, a rule with feedback, a regrouping."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fflbench
from fflbench import registry
from fflbench.cli import app
from fflbench.federation import Setting
from fflbench.federation.chain import defense, parse
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind
from tests.federation.chains import COLUMNS, begun, packed, result, served, transmitted

HERE = Path(__file__).parent
TWO_SERVERS, FEEDBACK_RULE, REGROUPING = FILES = [
    str(HERE / f"{name}.py") for name in ("two_servers", "feedback_rule", "regrouping")
]
PLUGINS = [word for file in FILES for word in ("--plugin", file)]


@pytest.fixture(scope="module")
def loaded():
    """The registry with all three plugins, until the last of these tests."""
    registry.load_installed()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_entries", dict(registry._entries))
        assert registry.load_named(FILES) == ()
        yield


SUITE = """
tasks = ["digits-mlp"]
attacks = [{attacks}]
defenses = [{defenses}]
seeds = [0]
[overrides]
rounds = 2
"""

CHAINS = {
    "two-servers": TWO_SERVERS,
    "moderation": FEEDBACK_RULE,
    "fragment-exchange + moderation": FEEDBACK_RULE,
    "all-pairs + median": REGROUPING,
    "fragment-exchange + all-pairs + trimmed-mean": REGROUPING,
}


def quoted(names):
    return ", ".join(f'"{name}"' for name in names)


def test_plugins_run_in_a_suite_from_the_command_line(loaded, tmp_path):
    suite = tmp_path / "own.toml"
    suite.write_text(SUITE.format(attacks='"none", "gaussian-noise"', defenses=quoted(CHAINS)))
    words = ["run", str(suite), "--out", str(tmp_path), "--workers", "1", *PLUGINS]
    done = subprocess.run([sys.executable, "-m", "fflbench", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    records = list(fflbench.load(tmp_path))
    assert {record.labels["defense"] for record in records} == set(CHAINS)
    assert all(record.metrics["accuracy"] > 0.2 for record in records if record.labels["attack"] == "none")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("transports", "two-servers"),
        ("observations", "both-servers"),
        ("rules", "moderation"),
        ("preaggregations", "all-pairs"),
    ],
)
def test_plugins_are_listed(loaded, kind, name):
    assert name in CliRunner().invoke(app, ["list", kind, *PLUGINS]).output


@pytest.mark.parametrize("text", CHAINS)
def test_a_plugin_goes_on_from_a_checkpoint_to_the_same_bits(loaded, text):
    def federation():
        task = registry.get(Kind.TASK, "digits-mlp").create(rounds=4)
        return Federation(task, registry.get(Kind.ATTACK, "gaussian-noise").create(), defense(text), seed=1)

    whole, first, second = federation(), federation(), federation()
    whole.run()
    first.run_round(), first.run_round()
    second.restore(first.state())
    second.run()
    np.testing.assert_array_equal(second.weights, whole.weights)
    for owner, memory in whole.defense.memory.items():
        assert {name: array.tobytes() for name, array in memory.items()} == {
            name: array.tobytes() for name, array in second.defense.memory[owner].items()
        }


@pytest.mark.parametrize("text", CHAINS)
def test_the_servers_half_needs_the_view_alone(loaded, text, monkeypatch):
    configuration = parse(text).check({})
    chain = begun(configuration)
    chain.aggregate(transmitted(chain, 0))
    transcript = transmitted(chain, 1)
    content, sent = packed(chain, configuration, transcript.server), []
    monkeypatch.setattr(chain.transport, "deliver", lambda transcript, feedback: sent.append(feedback))
    change = chain.aggregate(transcript)
    assert served(content) == result(change, sent[0], chain.rule.memory)


# Two servers


def test_two_servers_find_the_mean_by_examples(loaded):
    chain, plain = begun(parse("two-servers").check({})), begun(parse("fedavg").check({}))
    found, wanted = (each.aggregate(transmitted(each, 0)) for each in (chain, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def test_shares_and_the_sum_of_shares_are_counted_in_the_ledger(loaded):
    ledger = transmitted(begun(parse("two-servers").check({})), 0).ledger
    row = COLUMNS.count * 8
    assert ledger.bytes["up"]["share"] == 8 * 2 * row
    assert ledger.messages["up"] == 8 * 2
    assert not ledger.bytes["between"]
    assert ledger.between_servers["sum of shares"] == row
    assert ledger.by_kind()["sum of shares"] == row
    assert ledger.kinds["share"].vector
    sizes, messages = ledger.per_participant(8)
    assert sizes["up"]["share"] == 2 * row
    assert messages["up"] == 2


def test_a_round_in_which_nobody_has_a_finite_update_keeps_the_model(loaded):
    chain = begun(parse("two-servers").check({}))
    rows = np.full((8, COLUMNS.count), np.nan, np.float32)
    transcript = chain.transmit(0, np.zeros(COLUMNS.count, np.float32), chain.select(0), rows)
    assert len(transcript.server.rows) == 0


def test_only_both_servers_together_recover_updates(loaded, tmp_path):
    text = SUITE.format(attacks='"analytic"', defenses='"two-servers"').replace("rounds = 2", "")
    (tmp_path / "own.toml").write_text(
        text + '[measure]\nuse = "reconstruction"\nobservation = ["one-server", "both-servers", "sum"]\n'
    )
    records = fflbench.run(tmp_path / "own.toml", out=tmp_path, workers=1, plugins=FILES)
    psnr = {record.configuration["measure"]["parameters"]["observation"]: record.metrics["psnr"] for record in records}
    assert psnr["both-servers"] > 60
    assert psnr["one-server"] < 15
    assert psnr["sum"] < 30


# A rule with feedback


def test_feedback_reaches_participants_through_the_transport(loaded):
    chain = begun(parse("fragment-exchange + moderation").check({}))
    transcript = transmitted(chain, 0)
    chain.aggregate(transcript)
    assert np.count_nonzero(chain.transport.memory["local"]) == 8
    plain = begun(parse("moderation").check({}))
    transcript = transmitted(plain, 0)
    plain.aggregate(transcript)
    assert transcript.ledger.bytes["down"]["feedback"] == 8 * 4


def test_a_rule_selects_by_its_memory(loaded):
    chain = defense("moderation")
    chain.begin(Setting(8, 4, np.ones(8, int), COLUMNS), seed=0)
    chain.rule.memory["loudness"][:] = [5, 1, 4, 1, 3, 1, 9, 2]
    assert chain.select(3).tolist() == [1, 3, 5, 7]


# More rows than before


def test_the_mean_of_all_pairs_is_the_mean(loaded):
    updates = np.random.default_rng(0).normal(size=(7, 30)).astype(np.float32)
    np.testing.assert_allclose(fflbench.aggregate("all-pairs + fedavg", updates), updates.mean(0), atol=1e-6)
    pairs = [(updates[i] + updates[j]) / 2 for i in range(7) for j in range(i)]
    np.testing.assert_allclose(fflbench.aggregate("all-pairs + median", updates), np.median(pairs, 0), atol=1e-6)


def test_a_rule_behind_a_regrouping_is_checked_for_the_rows_that_it_gets(loaded):
    chain = defense("all-pairs + krum", f=20)
    chain.validate(8)
    assert fflbench.aggregate("all-pairs + krum", np.eye(8, dtype=np.float32), f=20).shape == (8,)

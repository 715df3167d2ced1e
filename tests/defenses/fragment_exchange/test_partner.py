"""What a curious partner learns: nothing of our exchange, everything of one that is as it must not be."""

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.parties import ExchangeServer
from fflbench.defenses.transports.fragment_exchange.parties_with_breakable_pads import PARTIES

from fflbench.crypto.entropy import Entropy
from fflbench.errors import SuiteError
from fflbench.execution.run_cell import run_cell
from fflbench.report.all_tables import build_board
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse


def cell(attack, pads, task="digits-mlp", **content):
    content = {
        "tasks": [task],
        "attacks": [attack],
        "defenses": ["ffl"],
        "seeds": [0],
        "measure": {"use": "partner", "pads": pads, "pairs": 3},
    } | content
    (found,) = plan(parse(content, "own", "own.toml"))
    return found


@pytest.mark.parametrize("attack", ["partner-view", "weak-generator"])
def test_our_pads_show_a_partner_nothing(attack):
    record = run_cell(cell(attack, "aes-ctr"), "own")
    found, bits = record.metrics, record.facts["bits"]
    assert found["recovered"] == 0
    # A fair coin strays further once in a million times.
    assert abs(found["bit_accuracy"] - 0.5) < 4.9 * 0.5 / np.sqrt(bits)


def test_a_mersenne_twister_gives_nearly_all_of_a_small_model_away_and_claims_nothing_wrong():
    found = run_cell(cell("weak-generator", "mersenne-twister", "digits-cnn"), "own").metrics
    assert found["recovered"] > 0.75
    assert found["wrong_claims"] == 0


def test_a_mersenne_twister_hides_from_who_does_not_solve_it():
    found = run_cell(cell("partner-view", "mersenne-twister"), "own").metrics
    assert found["recovered"] == 0
    assert found["bit_accuracy"] == pytest.approx(0.5, abs=0.01)


def test_without_pads_the_transcript_is_the_update():
    found = run_cell(cell("partner-view", "none"), "own").metrics
    assert found["recovered"] == 1
    assert found["bit_accuracy"] == 1


@pytest.mark.parametrize("pads", list(PARTIES))
def test_demonstrations_exchange_as_ours_do_but_for_their_pads(pads):
    asking, asked = PARTIES[pads]
    server = ExchangeServer(Entropy(0))
    one, other = np.random.default_rng(0).standard_normal((2, 500), dtype=np.float32)
    initiator = asking(one, 0, 1, 3, server.public, Entropy(1))
    acceptor = asked(other, 1, 0, 3, server.public, Entropy(1))
    acceptor.finish_exchange(initiator.reply_to_answer(acceptor.answer_offer(initiator.make_offer())))
    np.testing.assert_array_equal(initiator.mask, acceptor.mask)
    opened = np.zeros(500, np.float32)
    server.decrypt_submission(initiator.submission(), 3, 0, opened)
    right = np.array_equal(opened, np.where(initiator.mask == 1, other, one))
    # Ours alone can be opened by the server, which derives the pad anew.
    assert right == (pads == "aes-ctr")


def test_attacks_go_where_they_belong():
    with pytest.raises(SuiteError, match='measure "partner" cannot run "dlg"'):
        cell("dlg", "aes-ctr")
    with pytest.raises(SuiteError, match='measure "reconstruction" cannot run "partner-view"'):
        cell("partner-view", "aes-ctr", measure={"use": "reconstruction"})


def test_exchanges_as_they_must_not_be_have_tables_of_their_own_and_are_not_joined():
    records = [run_cell(cell("partner-view", pads), "own") for pads in ("aes-ctr", "none")]
    tables = {table.title: table for table in build_board("own", records).tables}
    for pads, recovered in (("aes-ctr", 0), ("none", 1)):
        (row,) = tables[f"digits-mlp, curious partner (pads = {pads}) under partner-view"].rows
        assert row.cells[0].mean == recovered
    assert not any(table.section == "All together" for table in tables.values())

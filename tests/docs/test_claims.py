"""The table of the paper's claims has the verdicts of the leaderboards that there are."""

import shutil

from tests.docs.claims import BOARDS, claims


def test_absent_leaderboards_give_no_records_yet(tmp_path):
    shutil.copytree(BOARDS / "quick", tmp_path / "quick")
    verdicts = {row.label: row.cells[2].text for row in claims(tmp_path).rows}
    assert not any("holds" in text for text in verdicts.values())
    assert any(text.startswith("no records yet: ") for text in verdicts.values())

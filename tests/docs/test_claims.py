"""The table of the paper's claims on docs/reproduction.md is that of the committed records."""

import shutil

import pytest

from tests.docs.claims import BOARDS, PAGE, as_markdown, claims, up_to_date


@pytest.mark.skipif(not PAGE.exists(), reason="the page is not written yet")
def test_the_claims_on_the_page_are_those_of_the_records():
    page = PAGE.read_text("utf-8")
    assert page == up_to_date(page), "docs/reproduction.md is stale; run python -m tests.docs"


def test_a_page_gets_its_table_between_its_marks():
    page = up_to_date("# Reproduction\n\n<!-- claims -->\nold\n<!-- end -->\nrest\n")
    assert page.startswith("# Reproduction\n\n<!-- claims -->\n### Claims of Jebreel et al.")
    assert page.endswith("\n<!-- end -->\nrest\n")
    assert up_to_date(page) == page
    assert as_markdown() in page


def test_absent_leaderboards_give_no_records_yet(tmp_path):
    shutil.copytree(BOARDS / "quick", tmp_path / "quick")
    verdicts = {row.label: row.cells[2].text for row in claims(tmp_path).rows}
    assert not any("holds" in text for text in verdicts.values())
    assert any(text.startswith("no records yet: ") for text in verdicts.values())

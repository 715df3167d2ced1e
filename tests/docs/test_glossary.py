"""docs/glossary.md: twenty sorted terms, one line each, and pages that link to it."""

import re

import pytest

from tests.docs.compatibility import PAGE

DOCS = PAGE.parent
LINKED_FROM = [
    "../README.md",
    "chains.md",
    "federation.md",
    "leaderboards.md",
    "measures.md",
    "privacy.md",
    "suites.md",
]


def test_the_glossary_has_twenty_sorted_terms_of_one_line_each():
    _, *entries = (DOCS / "glossary.md").read_text("utf-8").rstrip("\n").split("\n- ")
    terms = [re.fullmatch(r"\*\*(.+?)\*\*: .+\.", entry)[1] for entry in entries]
    assert len(terms) == 20
    assert terms == sorted(set(terms))


@pytest.mark.parametrize("page", LINKED_FROM)
def test_pages_that_use_its_terms_link_to_the_glossary(page):
    assert "glossary.md)" in (DOCS / page).read_text("utf-8")

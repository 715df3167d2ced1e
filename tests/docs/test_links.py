"""Links and paths on all pages lead to files."""

import re

import pytest

from tests.docs.compatibility import PAGE

ROOT = PAGE.parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *PAGE.parent.glob("*.md")})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_to_files(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_source_files_on_pages_exist(page):
    paths = re.findall(r"`((?:fflbench|attacks|defenses|tests|benchmarks)/[\w/.]+)`", page.read_text("utf-8"))
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_of_the_same_page_exist(page):
    content = page.read_text("utf-8")
    headings = [
        re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in re.findall(r"^#+ (.*)", content, re.M)
    ]
    assert set(re.findall(r"\]\(#([^)]+)\)", content)) <= set(headings)

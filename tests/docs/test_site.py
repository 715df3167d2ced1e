"""The documentation site: every page has its place, leads with a command, and references are complete."""

import re
import runpy
import shlex
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import fflbench
import fflbench.plugin
from fflbench.cli import app
from tests.docs.compatibility import PAGE

ROOT, DOCS = PAGE.parents[1], PAGE.parent
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
NAVIGATION = re.findall(r"^ +- (?:.+: )?([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
HOOKS = SimpleNamespace(**runpy.run_path(str(DOCS / "_site" / "hooks.py")))


def text_of(page):
    return (DOCS / page).read_text("utf-8")


def test_the_navigation_has_every_page_once():
    assert sorted(NAVIGATION) == PAGES


def test_the_readme_lists_pages_in_the_order_of_the_navigation():
    _, documentation = (ROOT / "README.md").read_text("utf-8").split("## Documentation")
    assert re.findall(r"\]\(docs/([\w-]+\.md)\)", documentation) == NAVIGATION


def test_the_index_leads_to_every_other_page():
    assert set(re.findall(r"\]\(([\w-]+\.md)[)#]", text_of("index.md"))) == set(PAGES) - {"index.md"}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_leads_with_an_answer_and_one_command_that_works(page, tmp_path, monkeypatch):
    answer, fence, rest = text_of(page).partition("\n```sh\n")
    assert fence
    assert re.match(r"# .+\n\n[\w`]", answer)
    assert "\n#" not in answer
    (line,) = rest[: rest.index("\n```")].splitlines()
    program, *command = shlex.split(line, comments=True)
    if program == "fflbench":
        monkeypatch.chdir(ROOT if command[0] == "verify" else tmp_path)
        done = CliRunner().invoke(app, [*command, *{"run": ["--dry-run"], "verify": ["--help"]}.get(command[0], [])])
        assert done.exit_code == 0, done.output
    else:
        assert program == "python"
        exec(command[-1], {})


@pytest.mark.parametrize(("page", "module"), [("api-plugin.md", fflbench.plugin), ("api-python.md", fflbench)])
def test_a_reference_has_every_public_name_of_its_module(page, module):
    shown = re.findall(rf"^::: {module.__name__}\.(\w+)$", HOOKS.on_page_markdown(text_of(page)), re.MULTILINE)
    assert shown == [name for name in module.__all__ if name != "__version__"]


def test_names_are_referenced_under_the_headings_of_their_groups():
    page = HOOKS.on_page_markdown(text_of("api-plugin.md"))
    assert page.index("## Poisoning attacks") < page.index("::: fflbench.plugin.Known") < page.index("## Tasks")


def test_files_outside_the_site_are_named_by_their_paths():
    page = "See [benchmarks](../benchmarks/README.md) and [here](tasks.md).\n"
    assert HOOKS.on_page_markdown(page) == "See `benchmarks/README.md` and [here](tasks.md).\n"


def test_lists_and_code_have_empty_lines_around_them_and_code_is_left_alone():
    page = "Two:\n- one\n  more\n- two\n```yaml\nkey:\n- [a](../b)\n```\n1. first\n2. second\n"
    assert HOOKS.on_page_markdown(page) == (
        "Two:\n\n- one\n  more\n- two\n\n```yaml\nkey:\n- [a](../b)\n```\n\n1. first\n2. second\n"
    )

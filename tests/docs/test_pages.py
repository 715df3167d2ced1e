"""Pages with figures are those of the committed records, and show no number without anything behind it."""

import pytest

from tests.docs import pages, record_figures
from tests.docs.pages import DOCS, PAGES, UnsupportedNumberError, pictures, render


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_the_records(name):
    page = (DOCS / name).read_text("utf-8")
    assert page == render(name), f"docs/{name} is stale; run python -m tests.docs"
    stale = [copy.name for copy, original in pictures(page).items() if copy.read_bytes() != original.read_bytes()]
    assert not stale, "pictures are stale; run python -m tests.docs"


def test_pages_of_results_are_generated():
    assert {"ffl.md", "reproduction.md"} <= set(PAGES)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Return a function that renders a template."""

    def rendered(template):
        (tmp_path / "page.md").write_text(template, "utf-8")
        return render("page.md").rpartition("\n<!--")[0].strip("\n")

    monkeypatch.setattr(pages, "TEMPLATES", tmp_path)
    return rendered


@pytest.mark.parametrize(
    "prose",
    [
        "An accuracy of 96.1% is high.",
        "It takes 3 s.",
        "| a | -0.5 |",
        "- from 1,200 to {{ given('1,300') }}",
        "about ±2",
        "`x = 1` and 2",
        "# Heading\n\nbelow 3",
        "```\ncode\n```\n\nbetween 3\n\n```\ncode\n```\n",
        "n = 10, f = 2.",
        "# Results\n\nIt takes 3 s.\n",
        "{{ 96.1 }}",
        "{{ '96.1' }}",
    ],
)
def test_a_number_in_prose_without_records_is_an_error(page, prose):
    with pytest.raises(UnsupportedNumberError):
        page(prose)


@pytest.mark.parametrize(
    "prose",
    [
        "CIFAR-10, VGG16, float32, SHA-256, AES-256-CTR and RFC 7919",
        "`rounds = 60` and [a link](suites.md#42)",
        "1. an item\n2. another one\n",
        "## Version 2\n",
        "```toml\nrounds = 60\n```\n",
    ],
)
def test_names_code_headings_and_list_items_may_have_numbers(page, prose):
    assert page(prose) == prose.strip("\n")


def test_a_figure_is_that_of_the_table(page):
    quick = "records('quick')(task='digits-mlp', measure='robustness')"
    shown = page("{{ " + quick + "(attack='none', defense='ffl').interval('accuracy') }}")
    mean, _, half = shown.partition(" ± ")
    readme = (record_figures.BOARDS / "quick" / "README.md").read_text("utf-8")
    assert mean in readme
    assert f"± {half}" in readme


def test_the_strongest_attack_is_that_of_the_table(page):
    digits = "records('privacy-membership')(task='digits-mlp', measure='membership', control=False)"
    runs = digits + "(defense='fedavg', observation='submission').strongest('auc')"
    shown = page("{{ " + runs + ".interval('auc') }} \\({{ " + runs + ".attack() }}\\)")
    table = page("{{ table('privacy-membership', 'digits-mlp-membership-control-false-auc', rows=['fedavg']) }}")
    assert f"| {shown} |" in table


def test_a_figure_of_several_configurations_is_an_error(page):
    with pytest.raises(LookupError, match="configurations, not one"):
        page("{{ records('quick')(task='digits-mlp', measure='robustness').mean('accuracy') }}")


def test_a_figure_without_records_is_an_error(page):
    with pytest.raises(LookupError, match="no record has"):
        page("{{ records('quick')(defense='fedprox').mean('accuracy') }}")


def test_the_papers_figures_are_printed_as_in_the_paper(page):
    assert page("{{ paper('robustness_gn', 'FedAvg (no attacks)', 'TE', 'Adult-MLP') }}") == "0.349"
    assert page("{{ paper('runtime', 'FFL', 'S Dec.', 'MNIST-CNN', updates=50) }}") != page(
        "{{ paper('runtime', 'FFL', 'S Dec.', 'MNIST-CNN', updates=100) }}"
    )


def test_a_figure_of_the_last_rounds_is_their_mean(page):
    one = record_figures.records("ffl-framing")(attack="non-finite", defense="ffl", strategy=3)
    first = record_figures.Runs(one.records[:1])
    rounds = first.records[0].history[-10:]
    assert first.values("last10.framed") == [sum(len(each["framed"]) for each in rounds) / 10]
    assert first.values("last10.attackers_selected") == [sum(each["attackers_selected"] for each in rounds) / 10]
    assert first.values("last1.accuracy") == first.values("last.accuracy")


def test_a_table_is_shown_with_and_without_its_notes(page):
    part = "columns=['honest_excluded'], rows=['no attack, ffl']"
    shown = "{{ table('ffl-framing', 'digits-mlp-exclusions', " + part + "%s) }}"
    content = "| attack | defense | honest participants excluded % |\n|---|---|---:|\n| no attack | ffl | 25.0 |"
    assert page(shown % ", notes=false") == content
    assert page(shown % "").startswith(content + "\n\nRefused: ")


def test_prose_is_wrapped_after_its_figures_are_written(page):
    long = "{{ given('1') }}\n  is " * 30
    wrapped = page(f"- {long}and `a = b`\n- next\n\n| a | b |\n|---|---|\n```sh\nfflbench   run\n```\n")
    first, *rest = wrapped.splitlines()
    assert first.startswith("- 1 is 1 is")
    assert 100 < len(first) <= pages.WIDTH
    assert rest[-7:] == ["- next", "", "| a | b |", "|---|---|", "```sh", "fflbench   run", "```"]

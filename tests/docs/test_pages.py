"""Pages with figures are those of the committed records, and show no number without anything behind it."""

import re

import pytest

from fflbench import registry
from fflbench.registry import Kind
from tests.docs import pages, record_figures
from tests.docs.pages import PAGES, README, TEMPLATES, UnsupportedNumberError, page_file, pictures, render


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_the_records(name):
    page = page_file(name).read_text("utf-8")
    assert page == render(name), f"{page_file(name)} is stale; run python -m tests.docs"
    stale = [copy.name for copy, original in pictures(page).items() if copy.read_bytes() != original.read_bytes()]
    assert not stale, "pictures are stale; run python -m tests.docs"


def test_pages_of_results_are_generated():
    assert {README, "ffl.md", "reproduction.md", "standard.md"} <= set(PAGES)


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


@pytest.mark.parametrize("heading", ["## Results\n", "## Commands\n"])
def test_a_number_in_the_readme_without_records_is_an_error(page, heading):
    template = (TEMPLATES / README).read_text("utf-8")
    with pytest.raises(UnsupportedNumberError, match=r"without records: 96\.1$"):
        page(template.replace(heading, f"{heading}The median has 96.1 percent.\n"))


def test_a_block_of_definitions_may_have_numbers(page):
    assert page("{% filter given %}\n| a | 2,410 |\n{% endfilter %}\n") == "| a | 2,410 |"
    with pytest.raises(UnsupportedNumberError):
        page("{% filter given %}\n| a | 2,410 |\n{% endfilter %}\n| b | 1 |\n")


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


def test_sentences_are_those_above_the_table_of_the_leaderboard(page):
    whole = (record_figures.BOARDS / "quick" / "README.md").read_text("utf-8")
    shown = page("{{ sentences('quick', 'overall-digits-mlp') }}").replace("\n", " ")
    assert f"all measures\n\n{shown}\n\n| defense |" in whole
    assert not page("{{ table('quick', 'overall-digits-mlp') }}").startswith(shown[:20])


def test_the_first_rows_of_a_table_are_shown_without_intervals(page):
    part = "{{ table('quick', 'overall-digits-mlp', ['worst_accuracy'], top=1, intervals=%s, notes=false) }}"
    first = "| trimmed-mean ⚑1 | = 72.28 \\(54.61 to 84.22, adaptive-search\\) |"
    assert page(part % "true").splitlines()[2:4] == [first, ""]
    assert page(part % "false").splitlines()[2:4] == ["| trimmed-mean ⚑1 | = 72.28 \\(adaptive-search\\) |", ""]
    assert page("{{ row_count('quick', 'overall-digits-mlp') }}") == "8"


def test_defenses_are_shown_by_the_assumptions_under_which_they_hold(page):
    head, _, *rows = page("{{ holding_table('quick') }}").splitlines()
    assert head.startswith("| the server is given | attackers know their own data |")
    cells = {row.split(" | ")[0]: row for row in rows}
    # FoolsGold, at 85.11, loses more than ten points.
    own = "fedavg 94.28, median 87.06"
    assert cells["| nothing"] == f"| nothing | {own} | {own} | none of 3; best: median 53.56 |"
    assert "trimmed-mean 93.11" in cells["| the number of attackers, f"]
    assert "ffl 93.11" in cells["| mixed updates only, by exchange between participants"]


def test_a_defense_that_does_not_hold_is_not_in_bold(page):
    table = page("{{ accuracy_by_knowledge('quick') }}")
    assert "| nothing | foolsgold | 85.11" in table
    assert "| nothing | median | **87.06" in table


def test_attacks_are_shown_with_the_knowledge_that_they_declare(page):
    line = (
        "| `gaussian-noise` | Train honestly, then add noise to every parameter, so that the model does not converge. |"
    )
    assert f"{line} the attackers' own training data |" in page("{{ attacks_table('quick') }}")
    assert page("{{ attack_count('quick') }} {{ defense_count('quick') }}") == "5 7"


def test_prose_names_the_defenses_at_the_ends_of_columns(page):
    for end, expected in {"lowest": "`fedavg` 0.00", "highest": "`trimmed-mean` 72.28"}.items():
        it = f"{end}('quick', 'worst_accuracy')"
        assert page("{{ " + it + ".defense }} {{ " + it + ".figure }}") == expected
    gap = "{% set it = largest_gap('quick', 'mean_accuracy', 'worst_accuracy') %}{{ it.defense }} {{ it.other }}"
    assert page(gap) == "`foolsgold` 10.28"
    assert page("{{ worst_attacks('quick') }}") == "`optimal-inner-product` (5), `adaptive-search` (2)"


BUILT_IN = (Kind.TRANSPORT, Kind.PREAGGREGATION, Kind.RULE, Kind.ATTACK, Kind.PRIVACY_ATTACK, Kind.OBSERVATION)


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_readme_names_every_built_in_plugin(kind):
    registry.load_installed()
    _, _, rest = page_file(README).read_text("utf-8").partition("| kind | built in |")
    named = set(re.findall(r"[\w-]+", rest[: rest.index("\n\n")]))
    assert {entry.name for entry in registry.entries(kind) if not entry.source} - {"none"} <= named


def test_the_readme_has_every_task_with_its_participants_and_rounds():
    registry.load_installed()
    page = page_file(README).read_text("utf-8")
    shown = dict(re.findall(r"^\| `([\w-]+)` \| .* \| ([\d /]+) \|$", page, re.MULTILINE))
    tasks = {entry.name: entry.create() for entry in registry.entries(Kind.TASK) if not entry.source}
    assert shown == {name: f"{task.participants} / {task.per_round} / {task.rounds}" for name, task in tasks.items()}

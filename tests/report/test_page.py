"""The page of a leaderboard, in a real browser."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fflbench.records import collection
from fflbench.report import page
from fflbench.report.all_tables import build_board
from fflbench.report.figures import draw_figures
from fflbench.report.reproduction_commands import reproduction_commands
from fflbench.report.table_model import OVERALL, Board, Column, Row, Table, TableCell

COMMITTED = Path(__file__).parents[2] / "leaderboards" / "quick"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def quick():
    return collection.read_collection(COMMITTED)


def commands_for(records):
    return reproduction_commands(records.suite, records.records, {})


@pytest.fixture(scope="module")
def written(quick, tmp_path_factory):
    """The page of the committed leaderboard, as a file."""
    board = build_board(quick.suite, quick.records)
    drawn = draw_figures(quick.records, board, quick.arrays)
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text(page.render_leaderboard(board, quick.records, drawn, commands_for(quick)))
    return file


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def opened(browser, written):
    """Opens a page; what it complained of, or asked for from elsewhere, fails the test."""
    contexts, troubles = [], []

    def open(file=written, **settings):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        found = context.new_page()
        found.on("console", lambda message: troubles.append(message.text))
        found.on("pageerror", lambda error: troubles.append(str(error)))
        found.on("dialog", lambda dialog: (troubles.append("an alert"), dialog.dismiss()))
        found.on("request", lambda request: request.url.startswith(("file:", "data:")) or troubles.append(request.url))
        found.goto(file.as_uri())
        return found

    yield open
    for context in contexts:
        context.close()
    assert troubles == []


def column_values(table, column):
    cells = table.locator(f"tbody tr td:nth-child({column + 1})")
    return [float(value) for value in cells.evaluate_all("cells => cells.map(cell => cell.dataset.v)") if value]


def test_a_column_sorts_both_ways_and_says_so(opened):
    table = opened().locator("#all-together table").first
    head = table.locator("thead th").nth(1)
    head.locator(".sort").click()
    assert head.get_attribute("aria-sort") == "ascending"
    values = column_values(table, 1)
    assert len(values) > 5
    assert values == sorted(values)
    head.locator(".sort").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column_values(table, 1) == sorted(values, reverse=True)
    table.locator("thead th .sort").first.click()
    names = table.locator("tbody th").all_inner_texts()
    assert names == sorted(names)
    assert head.get_attribute("aria-sort") == "none"


def test_what_has_no_figure_comes_last_either_way(opened):
    table = opened().locator("#all-together table").first
    place = table.locator("thead .sort").all_inner_texts().index("server, s")
    for _ in range(2):
        table.locator("thead .sort").nth(place).click()
        assert table.locator("tbody tr").last.locator("th").inner_text() == "ideal-secagg"


def test_searching_leaves_rows_with_these_words(opened):
    found = opened()
    rows = found.locator("article tbody tr:visible")
    before = rows.count()
    found.get_by_label("Search rows").fill("krum")
    names = {text.partition(" ⚑")[0] for text in rows.locator("th").all_inner_texts()}
    assert names == {"multi-krum", "submission, multi-krum"}
    assert found.locator("#found").inner_text() == f"{rows.count()} of {before} rows"
    found.get_by_label("Search rows").fill("foolsgold, gaussian-noise")
    assert rows.locator("th").all_inner_texts() == ["foolsgold"]
    found.get_by_label("Search rows").fill("nobody has this")
    assert rows.count() == 0
    assert found.locator("#found").inner_text() == "No row matches."
    found.get_by_label("Search rows").fill("")
    assert rows.count() == before


def test_defenses_can_be_left_out_and_brought_back(opened):
    found = opened()
    rows = found.locator("article tbody tr:visible")
    before = rows.count()
    found.get_by_text("Defenses", exact=True).click()
    found.get_by_role("checkbox", name="foolsgold").uncheck()
    assert "foolsgold" not in rows.locator("th").all_inner_texts()
    assert rows.count() < before
    found.get_by_role("button", name="Show all").click()
    assert rows.count() == before


def test_a_figure_leads_to_its_records(opened, quick):
    found = opened()
    row = found.locator("#all-together tbody tr").filter(has_text="foolsgold").first
    row.locator(".cell").nth(1).click()
    dialog = found.get_by_role("dialog")
    assert dialog.locator("h2").inner_text().startswith("foolsgold: worst untargeted %")
    assert dialog.locator("article > details[open]").count() == 1
    dialog.evaluate("it => it.querySelectorAll('article > details').forEach((box) => { box.open = true; })")
    text = dialog.inner_text()
    board = build_board(quick.suite, quick.records)
    table = next(table for table in board.tables if table.section == OVERALL)
    (cell,) = (row.cells[1] for row in table.rows if row.label == "foolsgold")
    assert dialog.locator("article").count() == len(cell.records)
    for name in cell.records:
        assert f"fflbench run leaderboards/quick/{name} --force" in text
        assert f"fflbench show leaderboards/quick/{name}" in text
    assert found.locator('#made a[href="records.jsonl.xz"]').count() == 1
    assert dialog.locator("svg.curve").count() == len(cell.records)
    dialog.get_by_text("Configuration and machine").first.click()
    assert '"rounds": 30' in dialog.locator("pre:visible").first.inner_text()
    found.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_two_defenses_stand_side_by_side(opened):
    found = opened()
    found.get_by_label("Compare", exact=True).select_option("median")
    found.get_by_label("with", exact=True).select_option("foolsgold")
    table = found.locator("#compared")
    assert table.locator("thead th").all_inner_texts() == ["figure", "median", "foolsgold", "difference"]
    line = table.locator("tbody tr").filter(has_text="worst untargeted %").first
    one, other, difference = line.locator("td").all_inner_texts()
    shown = [float(re.search(r"-?\d+\.\d+", text)[0]) for text in (one, other)]
    assert float(difference) == pytest.approx(shown[0] - shown[1], abs=0.011)
    assert line.locator("td.better").inner_text() == one
    found.get_by_label("with", exact=True).select_option("median")
    # Their intervals overlap.
    assert table.locator("tbody tr").filter(has_text="worst untargeted %").first.locator("td.better").count() == 0


def test_rows_of_one_defense_are_compared_together(opened):
    found = opened()
    found.get_by_label("Compare", exact=True).select_option("ffl")
    assert "ffl, strategy = 1 " in found.locator("#compared").inner_text()
    assert found.get_by_label("Compare", exact=True).locator("option").all_inner_texts() == [
        *("fedavg", "ffl", "foolsgold", "fragment-exchange + median", "ideal-secagg", "median", "multi-krum"),
        "trimmed-mean",
    ]


def test_words_are_explained(opened):
    words = opened().locator("#words").inner_text()
    for name in ("ideal-secagg", "noise-control", "strategy", "digits-mlp", "idlg"):
        assert name in words


def test_everything_works_by_keyboard_alone(opened):
    found = opened()
    found.keyboard.press("Tab")
    assert found.evaluate("document.activeElement.className") == "skip"

    def until(selector):
        for _ in range(400):
            found.keyboard.press("Tab")
            if found.evaluate("name => document.activeElement.matches(name)", selector):
                return
        raise AssertionError(f"no way to {selector}")

    until("#search")
    found.keyboard.type("ffl")
    until("article .sort")
    found.keyboard.press("Enter")
    assert found.locator('th[aria-sort="ascending"]').count() == 1
    until(".about")
    assert found.locator(".tip:visible").count() == 1
    until(".cell")
    found.keyboard.press("Enter")
    dialog = found.get_by_role("dialog")
    assert dialog.is_visible()
    until("#close")
    found.keyboard.press("Enter")
    assert not dialog.is_visible()
    assert found.evaluate("document.activeElement.className") == "cell"


def test_every_column_is_explained_on_hover(opened):
    found = opened()
    about = found.locator("#all-together .about").first
    assert found.locator(".tip:visible").count() == 0
    about.hover()
    tip = found.locator(".tip:visible")
    assert tip.count() == 1
    assert about.get_attribute("aria-describedby") == tip.get_attribute("id")
    assert (
        found.locator("article thead th").count()
        == found.locator("article .tip").count() + found.locator("article.panel").count()
    )


def test_a_narrow_screen_scrolls_tables_and_not_the_page(opened):
    found = opened(viewport={"width": 390, "height": 800})
    assert found.evaluate("document.documentElement.scrollWidth") <= 390
    assert found.locator(".scroll").first.evaluate("box => box.scrollWidth > box.clientWidth")
    record = "More columns to the right: scroll sideways."
    assert found.locator("#all-together").get_by_text(record).is_visible()
    wide = opened(viewport={"width": 1800, "height": 900})
    assert not wide.locator("article").filter(has_text="robustness, no attack").get_by_text(record).is_visible()
    names = found.locator("#all-together tbody th")
    assert min(name.bounding_box()["width"] for name in names.all()) > 90
    found.locator(".cell").first.click()
    assert found.get_by_role("dialog").bounding_box()["width"] <= 390


def test_dark_is_dark(opened):
    colours = [
        opened(color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert colours[0] == "rgb(255, 255, 255)"
    assert sum(map(int, re.findall(r"\d+", colours[1]))) < 120


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_barrier_is_found(opened, scheme):
    from axe_playwright_python.sync_playwright import Axe

    found = opened(color_scheme=scheme)
    results = Axe().run(found).response["violations"]
    found.locator(".cell").first.click()
    results += Axe().run(found).response["violations"]
    serious = [(each["id"], each["nodes"][0]["html"]) for each in results if each["impact"] in ("serious", "critical")]
    assert serious == []


def test_names_that_are_code_do_nothing(opened, quick, tmp_path):
    record = quick.records[0].model_copy(update={"labels": {**quick.records[0].labels, "defense": EVIL}})
    cell = TableCell(mean=1.0, note=EVIL, records=(record.id,))
    column = Column(name="x", title=EVIL, meaning=f'" onmouseover="alert(1)" {EVIL}')
    row = Row(keys=(EVIL,), defense=EVIL, cells=(cell,), flags=(EVIL, "</script><img src=x onerror=alert(1)>"))
    table = Table(name="evil", title=EVIL, section=EVIL, columns=(column,), rows=(row,), notes=(EVIL,))
    board = Board(suite=EVIL, title=EVIL, description=EVIL, tables=(table,), flags=(EVIL,))
    file = tmp_path / "evil.html"
    file.write_text(page.render_leaderboard(board, [record], [], commands_for(quick)))
    found = opened(file)
    found.locator(".about").first.hover()
    found.locator(".cell").first.click()
    assert EVIL in found.get_by_role("dialog").inner_text()
    assert found.locator("tbody th").first.inner_text().startswith(EVIL)
    assert found.locator("img").count() == 0
    (tmp_path / "index.html").write_text(page.render_index([("evil", board)]))
    assert opened(tmp_path / "index.html").get_by_role("link").inner_text() == EVIL


def test_nothing_but_our_own_script_and_style_has_any_effect(browser, written):
    found = browser.new_page()
    found.goto(written.as_uri())
    found.evaluate("""() => {
        const add = (name, text) => {
            const made = document.createElement(name);
            made.textContent = text;
            document.body.append(made);
            return made;
        };
        add("script", "window.evil = true;");
        add("style", "h1 { color: rgb(1, 2, 3) !important; }");
        const base = document.createElement("base");
        base.href = "https://example.org/";
        document.head.prepend(base);
        const inline = '<p id="inline" style="color: rgb(1, 2, 3)" onclick="window.evil = 1">x</p>';
        document.body.insertAdjacentHTML("beforeend", inline);
        document.getElementById("inline").click();
        window.left = [];
        addEventListener("securitypolicyviolation", (event) => window.left.push(event.effectiveDirective));
        const form = document.createElement("form");
        form.action = "elsewhere.html";
        document.body.append(form);
        form.submit();
    }""")
    found.wait_for_timeout(300)
    assert found.evaluate("window.evil") is None
    assert found.evaluate("getComputedStyle(document.querySelector('h1')).color") != "rgb(1, 2, 3)"
    assert found.evaluate("getComputedStyle(document.getElementById('inline')).color") != "rgb(1, 2, 3)"
    assert found.evaluate("document.baseURI") == written.as_uri()
    assert "form-action" in found.evaluate("window.left")
    found.close()


# Without a browser


def test_the_policy_of_every_page_names_what_may_run_by_its_hash(written, quick):
    board = build_board(quick.suite, quick.records)
    for text in (written.read_text(), page.render_index([("quick", board)])):
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'")
        assert policy.endswith("base-uri 'none'; form-action 'none'")
        assert not re.search(r"<[^>]* (?:on\w+|style)=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))


def test_the_same_records_give_the_same_bytes(quick):
    board = build_board(quick.suite, quick.records)
    assert page.render_leaderboard(board, quick.records, [], commands_for(quick)) == page.render_leaderboard(
        board, quick.records[::-1], [], commands_for(quick)
    )


def large_leaderboard(quick, cells=5000):
    """A leaderboard of many cells, ten columns a table, five records a cell."""
    first = quick.records[0]
    records = [
        first.model_copy(update={"id": f"{number:016x}", "configuration": {**first.configuration, "seed": number % 5}})
        for number in range(cells)
    ]
    columns = tuple(Column(name=f"c{n}", title=f"column {n} %", meaning="A column.", factor=100) for n in range(10))
    rows = [
        Row(
            keys=(f"defense {number}",),
            defense=f"defense {number}",
            cells=tuple(
                TableCell(
                    mean=(37 * (10 * number + n)) % 997 / 997,
                    low=0.0,
                    high=1.0,
                    seeds=5,
                    records=tuple(f"{(10 * number + n + k) % cells:016x}" for k in range(5)),
                )
                for n in range(10)
            ),
        )
        for number in range(cells // 10)
    ]
    tables = tuple(
        Table(name=f"p{n}", title=f"Table {n}", section="Robustness", columns=columns, rows=tuple(rows[n::5]))
        for n in range(5)
    )
    return Board(suite="big", title="Big", description="", tables=tables, flags=()), records


def test_a_page_of_5000_cells_stays_small_and_names_records(quick, opened, tmp_path):
    board, records = large_leaderboard(quick)
    text = page.render_leaderboard(board, records, [], commands_for(quick))
    assert len(text.encode()) < 2_000_000
    file = tmp_path / "big.html"
    file.write_text(text)
    found = opened(file)
    found.locator(".sort").nth(3).click()
    values = column_values(found.locator("table").first, 3)
    assert values == sorted(values)
    found.locator(".cell").first.click()
    assert found.get_by_role("dialog").locator("article").count() == 5
    assert "fflbench show leaderboards/big/" in found.get_by_role("dialog").inner_text()


def test_values_are_embedded_and_histories_short(written):
    data = json.loads(re.search(r'id="data">(.*?)</script>', written.read_text(), re.DOTALL)[1])
    assert len(data["records"]) == 247
    assert all(len(record.get("points", [])) <= 30 for record in data["records"])
    assert sum("points" in record for record in data["records"]) > 100

"""Records in Python: a pandas frame, and tables as notebooks show them."""

import sys
from html.parser import HTMLParser

import pytest

import fflbench
from fflbench.errors import RecordError
from fflbench.records.collection import record_sort_key
from fflbench.report import leaderboard
from fflbench.report.loaded_records import Records
from fflbench.report.table_model import Column, Row, Table, TableCell
from tests.report.record_folders import write_run_folder
from tests.report.synthetic_records import WHOLE, as_undefined, make_record, reconstruction_record, robustness_record
from tests.report.test_page import BROWSER

HOSTILE = '<script>alert(1)</script> & "quoted" $x_1$ \x1b[31m'


def swept(sigma, seed=0, **fields):
    return robustness_record(
        "gaussian-noise", seed=seed, parameters={"attack": {"sigma": sigma, "share": 0.2}}, **fields
    )


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def test_a_frame_has_one_row_per_record_with_labels_and_metrics(pandas, tmp_path):
    records = [robustness_record("none", "median", seed, accuracy=0.9 + seed / 100) for seed in (0, 1, 2)]
    write_run_folder(tmp_path / "results" / "own", records)
    frame = fflbench.load(tmp_path / "results").frame()
    assert isinstance(frame, pandas.DataFrame)
    assert sorted(frame["id"]) == sorted(record.id for record in records)
    assert frame.groupby(["defense", "attack"])["accuracy"].mean().to_dict() == {
        ("median", "none"): pytest.approx(0.91)
    }
    assert set(frame["seed"]) == {0, 1, 2}
    assert set(frame["processor"]) == {"x"}


def test_a_frame_has_the_parameters_that_differ_and_no_others(pandas):
    frame = Records([swept(sigma, seed) for sigma in (0.5, 1.0) for seed in (0, 1)]).frame()
    assert frame["attack.sigma"].tolist() == [0.5, 0.5, 1.0, 1.0]
    assert "attack.share" not in frame
    assert not any(column.startswith(("task.", "defense.", "measure.")) for column in frame)
    bounds = [
        robustness_record(defense="clipping + median", parameters={"defense": {"clipping": {"bound": bound}}})
        for bound in (1.0, 2.0)
    ]
    # Another rule has other parameters, which is no difference.
    frame = Records([*bounds, robustness_record(defense="multi-krum")]).frame()
    assert frame["defense.clipping.bound"].tolist()[:2] == [1.0, 2.0]
    assert [column for column in frame if column.startswith("defense.")] == ["defense.clipping.bound"]


def test_columns_of_a_frame_stand_in_groups(pandas):
    timed = swept(0.5, **{"seconds": {"train": 1.0, "total": 2.0}})
    failed = swept(1.0, status="failed", error="Error: no\nmemory")
    other = make_record("communication", {"bytes": 5.0})
    frame = Records([timed, failed, other]).frame()
    order = [list(frame).index(name) for name in ("id", "seed", "accuracy", "bytes", "attack.sigma", "seconds.total")]
    assert order == sorted(order)
    assert list(frame)[-2:] == ["processor", "error"]
    assert frame["status"].tolist() == ["done", "failed", "done"]
    assert frame.loc[1, "error"] == "Error: no\nmemory"


def test_a_shared_record_has_a_row_for_each_defense_on_request(pandas):
    record = robustness_record(defense="fedavg").model_copy(update={"shared_by": {"median": {}}})
    assert Records([record]).frame()["defense"].tolist() == ["fedavg"]
    assert Records([record]).frame(shared=True)["defense"].tolist() == ["fedavg", "median"]


def test_no_records_are_an_empty_frame_and_no_tables(pandas, tmp_path):
    nothing = fflbench.load(tmp_path)
    assert (nothing == [], nothing.frame().empty, nothing.tables()) == (True, True, [])


def test_without_pandas_a_frame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RecordError, match=r'^a frame needs pandas: pip install "fflbench\[pandas\]"$'):
        Records(WHOLE).frame()


def test_records_of_a_run_and_of_a_folder_have_the_tables_of_their_suites(tmp_path):
    for suite in ("one", "two"):
        renamed = [record.model_copy(update={"suite": suite}) for record in WHOLE]
        write_run_folder(tmp_path / suite, renamed)
    of_one, of_both = fflbench.load(tmp_path / "one").tables(), fflbench.load(tmp_path).tables()
    assert [table.title for table in of_both] == 2 * [table.title for table in of_one]
    assert any("accuracy" in column.title for table in of_one for column in table.columns)


def test_records_from_outside_are_marked_in_tables(board, entry):
    leaderboard.generate(board, None, new_entry=entry)
    tables = fflbench.load(board).tables()
    theirs = [row for table in tables for row in table.rows if row.defense == "their-rule"]
    assert theirs
    assert all("reported, not run again (their-rule" in row.flags[0] for row in theirs)


class Elements(HTMLParser):
    """Elements and texts of a page; every element must end."""

    def __init__(self, page):
        super().__init__()
        self.names, self.texts, self.open = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def table(text):
    column = Column(name="accuracy", title=f"accuracy {text}", meaning=f"meaning {text}", digits=1)
    cells = [TableCell(mean=0.5, low=0.4, high=0.6, mark="best"), TableCell(text=text, mark="tied")]
    rows = [Row(keys=(f"row {place} {text}",), defense=text, cells=(cell,)) for place, cell in enumerate(cells)]
    rows[0] = rows[0].model_copy(update={"flags": (f"flag {text}",)})
    return Table(
        name="own", title=f"title {text}", section="Robustness", columns=(column,), rows=rows, notes=(f"note {text}",)
    )


def test_a_table_is_html_with_best_and_tied_cells():
    found = Elements(table("plain")._repr_html_())
    assert found.texts == [
        *("title plain", "defense", "accuracy plain"),
        *("row 0 plain ⚑1", "0.5 ± 0.1", "row 1 plain", "= plain", "⚑1 flag plain", "note plain"),
    ]
    assert "<b>0.5 ± 0.1</b>" in table("plain")._repr_html_()
    assert found.names.count("tr") == 3


def test_no_text_of_a_plugin_becomes_an_element_of_the_page():
    assert Elements(table(HOSTILE)._repr_html_()).names == Elements(table("plain")._repr_html_()).names
    records = Records([robustness_record(labels={"defense": HOSTILE}, suite=HOSTILE, status="failed", error=HOSTILE)])
    assert "script" not in Elements(records._repr_html_()).names
    assert "\x1b" not in records._repr_html_()
    assert records.tables().flags


def test_a_browser_shows_the_tables_and_runs_nothing(tmp_path):
    if not BROWSER:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    page_file = tmp_path / "notebook.html"
    page_file.write_text(f"<!doctype html><meta charset=utf-8>{table(HOSTILE)._repr_html_()}", "utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page()
        shown = []
        page.on("dialog", lambda dialog: (shown.append(dialog.message), dialog.dismiss()))
        page.goto(page_file.as_uri())
        assert page.locator("tbody tr").count() == 2
        assert page.locator("td").first.inner_text() == "0.5 ± 0.1"
        assert "<script>alert(1)</script>" in page.locator("tbody th").first.inner_text()
        assert page.locator("td").first.evaluate("cell => getComputedStyle(cell).textAlign") == "right"
        browser.close()
    assert shown == []


def test_a_frame_has_poisoning_and_privacy_attacks_in_one_column(pandas):
    frame = Records([robustness_record("none"), reconstruction_record()]).frame()
    assert "privacy-attack" not in frame
    assert frame["attack"].notna().all()


def test_a_frame_has_no_figures_of_a_model_that_diverged(pandas):
    whole = robustness_record("none", accuracy=0.9)
    diverged = robustness_record("none", seed=1, accuracy=0.0)
    diverged = diverged.model_copy(update={"metrics": diverged.metrics | {"diverged": True}})
    assert Records([whole, diverged]).frame()["accuracy"].mean() == pytest.approx(0.9)


def test_a_frame_has_no_figures_of_a_rule_that_is_undefined(pandas):
    undefined = as_undefined(robustness_record("none", seed=1, accuracy=0.1))
    frame = Records([robustness_record("none", accuracy=0.9), undefined]).frame()
    assert frame["accuracy"].mean() == pytest.approx(0.9)


def test_loaded_records_stand_in_the_order_of_leaderboards(tmp_path):
    write_run_folder(tmp_path / "own", WHOLE)
    loaded = fflbench.load(tmp_path)
    assert loaded[0].labels["defense"] == "fedavg"
    assert loaded == sorted(loaded, key=record_sort_key)


def test_tables_are_printed_as_markdown():
    assert "| defense | rank | worst untargeted % |" in str(Records(WHOLE).tables())

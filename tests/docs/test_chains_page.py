"""docs/chains.md: its tables are those of the code, and its examples run."""

import re

import pytest

import fflbench
from fflbench.errors import ParameterError
from fflbench.federation.chain import parse
from tests.docs.compatibility import COMMAND, PAGE, up_to_date


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_tables_of_what_goes_with_what_are_up_to_date():
    page = PAGE.read_text("utf-8")
    assert page == up_to_date(page), f"docs/chains.md is stale; run {COMMAND}"


def test_a_page_without_its_tables_is_stale():
    page = PAGE.read_text("utf-8")
    assert up_to_date(page.replace("| `median` | yes", "| `median` | no")) == page


def test_the_refusal_on_the_page_is_the_one_that_is_raised():
    (shown,) = re.findall(r"```\n(\".*?)\n```", PAGE.read_text("utf-8"))
    with pytest.raises(ParameterError) as refused:
        parse("ideal-secagg + median")
    assert str(refused.value) == shown


def test_the_suite_on_the_page_runs(tmp_path):
    (suite,) = blocks("toml")
    (tmp_path / "own.toml").write_text(suite)
    records = fflbench.run(tmp_path / "own.toml", out=tmp_path / "results", workers=1)
    counted = [record.labels["defense"] for record in records if record.labels["attack"] == "gaussian-noise"]
    assert {label: counted.count(label) for label in counted} == {"fedavg": 1, "nnm + trimmed-mean": 1, "careful": 2}
    assert all(record.metrics["accuracy"] > 0.1 for record in records)

"""Registering the results of a paper."""

import pytest

from fflbench.errors import ParameterError
from fflbench.measures import published_results

FIELDS = "table,row,column,benchmark,value,unit,measure,task,defense,deviation,attack,metric,updates"
FIGURE = "tab:own,Mine,Acc%,Digits,91.5,%,robustness,digits-mlp,mine,,none,accuracy,"
CLAIMS = """
citation = "A stranger, A paper, 2026"
tables = { "tab:own" = "Own table" }

[[claims]]
id = "own"
sentence = "It is so."
section = "Results"
reason = "nobody knows"
"""


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Register a paper with these files, alone."""

    def register(figures=f"{FIELDS}\n{FIGURE}\n", claims=CLAIMS):
        (tmp_path / "figures.csv").write_text(figures)
        (tmp_path / "claims.toml").write_text(claims)
        monkeypatch.setattr(published_results, "_files", {})
        published_results.register(tmp_path / "figures.csv", tmp_path / "claims.toml")
        return published_results.papers()

    return register


def test_figures_and_claims_come_from_two_files(registered):
    (paper,) = registered()
    assert paper.citation == "A stranger, A paper, 2026"
    (figure,) = published_results.find_figures(task="digits-mlp")
    assert figure.number == pytest.approx(0.915)
    assert figure.updates is None
    assert [claim.reason for claim in paper.claims] == ["nobody knows"]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"claims": CLAIMS + 'verdict = "holds"\n'}, r"claims.0.verdict: Extra inputs are not permitted"),
        ({"claims": "citation = "}, "cannot be read: Invalid value"),
        ({"figures": f"{FIELDS}\n{FIGURE}many\n"}, "figures.0.updates: Input should be a valid integer"),
        ({"figures": "table,row\nx,y\n"}, "cannot be read: 'updates'"),
        (
            {"claims": CLAIMS + '[[claims.tests]]\npredicate = "nicer"\nmetrics = ["accuracy"]\nrows = ["mine"]\n'},
            "claims.0.tests.0.predicate: Input should be 'better', 'not-worse', 'similar' or 'within'",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_their_place(registered, files, problem):
    with pytest.raises(ParameterError, match=r"published results in .*: ") as refused:
        registered(**files)
    assert problem in str(refused.value)

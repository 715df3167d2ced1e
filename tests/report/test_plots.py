import pytest

from fflbench.errors import RecordError
from fflbench.records import Store
from fflbench.report import plots
from tests.report.test_tables import record


@pytest.fixture
def kept(tmp_path):
    def keep(**fields):
        made = record("ffl", 0, 0.9, **fields)
        store = Store(tmp_path)
        store.write(made)
        return store.file(made.id)

    return keep


HISTORY = [
    {"round": 1, "accuracy": 0.5, "trust": {"0": 0.2, "1": 0.4, "7": 0.0}},
    {"round": 2, "accuracy": 0.6, "trust": {"0": 0.6}},
    {"round": 3, "accuracy": None, "trust": {"7": 0.1}},
]


def test_trust_is_averaged_over_those_who_submitted():
    made = record("ffl", 0, 0.9, history=HISTORY)
    honest, hostile = plots.trusts(made)
    assert honest == [(1, pytest.approx(0.3)), (2, 0.6)]
    assert hostile == [(1, 0.0), (3, 0.1)]


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("trusting", [True, False])
def test_a_record_is_drawn(kept, tmp_path, ending, trusting):
    history = HISTORY if trusting else [{"round": 1, "accuracy": 0.5}]
    file = kept(history=history)
    plots.rounds(file, tmp_path / f"picture.{ending}")
    content = (tmp_path / f"picture.{ending}").read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<?xml")
    if ending == "svg":
        assert (b"average trust" in content) is trusting


def test_what_cannot_be_drawn_is_told(kept, tmp_path):
    failed = kept(status="failed", metrics={}, facts={}, error="oh")
    with pytest.raises(RecordError, match="there is nothing to draw"):
        plots.rounds(failed, tmp_path / "x.png")

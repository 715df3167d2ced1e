import pytest

from benchmarks import memory

N, D = 100, 1_000_000


@pytest.fixture(scope="module")
def peaks():
    return memory.peaks(N, D)


@pytest.mark.parametrize("name", memory.DEFENSES)
def test_a_round_takes_hardly_more_memory_than_its_matrix_of_updates(peaks, name):
    assert 1 <= peaks[name] / (4 * N * D) <= memory.MOST

import pytest

from benchmarks import server_memory

N, D = 100, 1_000_000


@pytest.fixture(scope="module")
def peaks():
    return server_memory.peak_bytes_by_defense(N, D)


@pytest.mark.parametrize("name", server_memory.DEFENSES)
def test_a_round_takes_hardly_more_memory_than_its_matrix_of_updates(peaks, name):
    assert 1 <= peaks[name] / (4 * N * D) <= server_memory.MAX_MATRICES

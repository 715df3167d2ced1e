"""The real sets, prepared anew from their files: what is in them, not what a cache says."""

import numpy as np
import pytest

from fflbench.data import adult, digits, imdb
from fflbench.data.sets import SETS
from fflbench.data.sources import contents, status


@pytest.fixture(scope="module")
def fresh(real_data):
    made = {}

    def prepare(name):
        if name not in made:
            parts = contents(SETS[name])
            if parts is None:
                pytest.skip(f"needs the real {SETS[name].title} under FFLBENCH_DATA")
            made[name] = SETS[name].prepare(parts)
        return made[name]

    return prepare


@pytest.mark.parametrize("name", SETS)
def test_every_checksum_holds(real_data, name):
    found = list(status(SETS[name]))
    if not all(part.file for part in found):
        pytest.skip(f"needs the real {SETS[name].title} under FFLBENCH_DATA")
    assert [part.problem for part in found] == [""] * len(found)


def test_mnist(fresh):
    arrays, _ = fresh("mnist")
    assert arrays["x_train"].shape == (60_000, 1, 28, 28)
    assert arrays["x_test"].shape == (10_000, 1, 28, 28)
    assert arrays["x_train"].dtype == np.float32
    # The class counts that LeCun's page and every tutorial show.
    assert np.bincount(arrays["y_train"]).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(arrays["y_test"]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert abs(arrays["x_train"].mean(dtype=np.float64)) < 1e-3
    assert abs(arrays["x_train"].std(dtype=np.float64) - 1) < 1e-3
    assert arrays["y_train"][:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_cifar10(fresh):
    arrays, _ = fresh("cifar10")
    assert arrays["x_train"].shape == (50_000, 3, 32, 32)
    assert arrays["x_test"].shape == (10_000, 3, 32, 32)
    assert np.bincount(arrays["y_train"]).tolist() == [5000] * 10
    assert np.bincount(arrays["y_test"]).tolist() == [1000] * 10
    np.testing.assert_allclose(arrays["x_train"].mean((0, 2, 3), dtype=np.float64), 0, atol=1e-3)
    np.testing.assert_allclose(arrays["x_train"].std((0, 2, 3), dtype=np.float64), 1, atol=2e-3)
    # The first training image is the frog that everybody knows, the first test image a cat.
    assert (arrays["y_train"][0], arrays["y_test"][0]) == (6, 3)


def test_adult(fresh):
    arrays, _ = fresh("adult")
    assert arrays["x_train"].shape == (39_032, 10)
    assert arrays["x_test"].shape == (9_758, 10)
    assert len(adult.FEATURES) == 10
    assert arrays["y_train"].sum() + arrays["y_test"].sum() == 11_681
    assert abs(arrays["y_test"].mean() - 11_681 / 48_790) < 0.005
    np.testing.assert_allclose(arrays["x_train"].mean(0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(arrays["x_train"].std(0, dtype=np.float64), 1, atol=1e-6)
    married = arrays["x_train"][:, adult.FEATURES.index("marital-status")]
    assert len(np.unique(married)) == 2
    # 22,366 + 627 + 37 of 48,790 people are married; the training part is a random four fifths.
    assert abs((married > 0).mean() - 23_030 / 48_790) < 0.01
    assert [len(np.unique(column)) for column in arrays["x_train"].T][9] <= 42


def test_imdb(fresh):
    arrays, facts = fresh("imdb")
    assert arrays["x_train"].shape == (40_000, 128)
    assert arrays["x_test"].shape == (10_000, 128)
    assert arrays["y_train"].sum() + arrays["y_test"].sum() == 25_000
    assert abs(arrays["y_train"].mean() - 0.5) < 0.01
    # About 12M parameters of embedding: between the words split at all punctuation (93,000) and at none (148,000).
    assert 110_000 < facts["vocabulary"] < 130_000
    assert imdb.UNKNOWN not in arrays["x_train"]
    assert 0.002 < (arrays["x_test"] == imdb.UNKNOWN).mean() < 0.02
    assert arrays["x_train"].max() < facts["vocabulary"]
    assert (arrays["x_train"][:, -1] != imdb.PADDING).all()


def test_words_are_lower_case_without_markup_or_punctuation():
    text = "It's a well-made film!<br /><br />The END -- or not?It cost $9.50_each, he said: 'Don’t go.'"
    expected = "its a wellmade film the end or not it cost 9 50 each he said dont go"
    assert " ".join(imdb.words(text)) == expected


def test_reviews_end_with_their_last_words():
    words = " ".join(f"word{i}" for i in range(200))
    line = f'1\t"{words}"\n'.encode()
    short = b'0\t"bad film"\n'
    arrays, facts = imdb.prepare({"train.jsonl": line + short * 4, "test.jsonl": b""})
    assert facts["vocabulary"] == 2 + 202
    x = np.concatenate([arrays["x_train"], arrays["x_test"]])
    long = x[(x != 0).all(1)][0]
    assert len(np.unique(long)) == 128
    brief = x[(x == 0).any(1)][0]
    assert (brief[:-2] == 0).all()
    assert (brief[-2:] > 0).all()


def test_digits_come_with_scikit_learn():
    data = digits.load()
    assert data.train.x.shape == (1437, 1, 8, 8)
    assert data.test.x.shape == (360, 1, 8, 8)
    assert data.train.x.min() == 0
    assert data.train.x.max() == 1
    assert np.bincount(np.concatenate([data.train.y, data.test.y])).tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]

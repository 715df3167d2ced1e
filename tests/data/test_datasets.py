"""The real sets, prepared anew from their files: what is in them, not what a cache says."""

import numpy as np
import pytest

from fflbench.data import adult, cifar10, digits, imdb, mnist
from fflbench.data.dataset_files import check_files, read_checked_files
from fflbench.data.datasets import DATASETS


@pytest.fixture(scope="module")
def prepare_real_dataset(real_data):
    made = {}

    def prepare(name):
        if name not in made:
            contents = read_checked_files(DATASETS[name])
            if contents is None:
                pytest.skip(f"needs the real {DATASETS[name].title} under FFLBENCH_DATA")
            made[name] = DATASETS[name].prepare(contents)
        return made[name]

    return prepare


@pytest.mark.parametrize("name", DATASETS)
def test_every_checksum_holds(real_data, name):
    found = list(check_files(DATASETS[name]))
    if not all(each.path for each in found):
        pytest.skip(f"needs the real {DATASETS[name].title} under FFLBENCH_DATA")
    assert [part.problem for part in found] == [""] * len(found)


def test_mnist(prepare_real_dataset):
    data = prepare_real_dataset("mnist")
    assert data.train.x.shape == (60_000, 1, 28, 28)
    assert data.test.x.shape == (10_000, 1, 28, 28)
    assert data.train.x.dtype == np.float32
    # The class counts that LeCun's page and every tutorial show.
    assert np.bincount(data.train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.test.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert abs(data.train.x.mean(dtype=np.float64)) < 1e-3
    assert abs(data.train.x.std(dtype=np.float64) - 1) < 1e-3
    assert data.train.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_cifar10(prepare_real_dataset):
    data = prepare_real_dataset("cifar10")
    assert data.train.x.shape == (50_000, 3, 32, 32)
    assert data.test.x.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.train.y).tolist() == [5000] * 10
    assert np.bincount(data.test.y).tolist() == [1000] * 10
    np.testing.assert_allclose(data.train.x.mean((0, 2, 3), dtype=np.float64), 0, atol=1e-3)
    np.testing.assert_allclose(data.train.x.std((0, 2, 3), dtype=np.float64), 1, atol=2e-3)
    # The first training image is the frog that everybody knows, the first test image a cat.
    assert (data.train.y[0], data.test.y[0]) == (6, 3)


def test_adult(prepare_real_dataset):
    data = prepare_real_dataset("adult")
    assert data.train.x.shape == (39_032, 10)
    assert data.test.x.shape == (9_758, 10)
    assert (
        *("age", "workclass", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "hours-per-week", "native-country"),
    ) == adult.FEATURES
    assert data.train.y.sum() + data.test.y.sum() == 11_681
    assert abs(data.test.y.mean() - 11_681 / 48_790) < 0.005
    np.testing.assert_allclose(data.train.x.mean(0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(data.train.x.std(0, dtype=np.float64), 1, atol=1e-6)
    married = data.train.x[:, adult.FEATURES.index("marital-status")]
    assert len(np.unique(married)) == 2
    # 22,366 + 627 + 37 of 48,790 people are married; the training set is a random four fifths.
    assert abs((married > 0).mean() - 23_030 / 48_790) < 0.01
    assert [len(np.unique(column)) for column in data.train.x.T][9] <= 42


def test_imdb(prepare_real_dataset):
    data = prepare_real_dataset("imdb")
    facts = data.facts
    assert data.train.x.shape == (40_000, 128)
    assert data.test.x.shape == (10_000, 128)
    assert data.train.y.sum() + data.test.y.sum() == 25_000
    assert abs(data.train.y.mean() - 0.5) < 0.01
    # About 12M parameters of embedding: between the words split at all punctuation (93,000) and at none (148,000).
    assert 110_000 < facts["vocabulary"] < 130_000
    assert imdb.UNKNOWN not in data.train.x
    assert 0.002 < (data.test.x == imdb.UNKNOWN).mean() < 0.02
    assert data.train.x.max() < facts["vocabulary"]
    assert (data.train.x[:, -1] != imdb.PADDING).all()


def test_words_are_lower_case_without_markup_or_punctuation():
    text = "It's a well-made film!<br /><br />The END -- or not?It cost $9.50_each, he said: 'Don’t go.'"
    expected = "its a wellmade film the end or not it cost 9 50 each he said dont go"
    assert " ".join(imdb.split_into_words(text)) == expected


def test_reviews_end_with_their_last_words():
    long = " ".join(f"word{number:03}" for number in range(200))
    reviews = f'1\t"{long}"\n'.encode() + b'0\t"bad film"\n' * 4
    data = imdb.prepare({"train.jsonl": reviews, "test.jsonl": b""})
    x = np.concatenate([data.train.x, data.test.x])
    # Words have indices from 2 in alphabetical order: bad, film, word000, word001, ...
    assert data.facts["vocabulary"] == 2 + 202
    assert [2 + 2 + number for number in range(72, 200)] in x.tolist()
    assert [0] * 126 + [2, 3] in x.tolist()


def test_mnist_images_are_read_row_by_row():
    pixels = np.arange(2 * 784, dtype=np.uint32).astype(np.uint8).reshape(2, 28, 28)
    images, labels = bytes(16) + pixels.tobytes(), bytes(8) + bytes([3, 7])
    names = [file.name for file in mnist.FILES]
    data = mnist.prepare(dict(zip(names, (images, labels, images, labels), strict=True)))
    np.testing.assert_allclose(data.train.x[:, 0] * 0.3081 + 0.1307, pixels / 255, atol=1e-6)
    assert data.test.y.tolist() == [3, 7]


def test_cifar10_images_are_read_channel_by_channel_and_row_by_row():
    record = bytes([5]) + bytes([10] * 1024) + bytes(range(256)) * 4 + bytes([30] * 1024)
    data = cifar10.prepare({part.name: record for part in cifar10.FILES})
    mean, deviation = (np.array(figures)[:, None, None] for figures in (cifar10.MEAN, cifar10.STD))
    pixels = np.round((data.train.x[0] * deviation + mean) * 255)
    assert data.train.x.shape == (5, 3, 32, 32)
    assert (pixels[0] == 10).all()
    assert (pixels[2] == 30).all()
    assert pixels[1, 1].tolist() == list(range(32, 64))
    assert data.test.y.tolist() == [5]


def test_adult_codes_are_those_of_the_description():
    def row(age, marital, sex, label):
        return f"{age}, Private, 1, X, 9, {marital}, Sales, Wife, White, {sex}, 0, 0, 40, ?, {label}"

    rows = [
        row(20, "Married-AF-spouse", "Male", ">50K"),
        row(30, "Never-married", "Female", "<=50K"),
        row(40, "Married-civ-spouse", "Male", "<=50K"),
        row(40, "Married-civ-spouse", "Male", "<=50K"),
    ]
    last = "|1x3 Cross validator\n" + row(50, "Widowed", "Female", ">50K") + ".\n"
    codes = adult.encode_column("marital-status", np.array(["Married-AF-spouse", "Separated", "Married-spouse-absent"]))
    assert codes.tolist() == [1, 0, 1]
    assert adult.encode_column("race", np.array(["White", "Black", "?", "White"])).tolist() == [2, 1, 0, 2]
    assert adult.encode_column("age", np.array(["20", "7"])).tolist() == [20, 7]
    with np.errstate(invalid="ignore"):
        data = adult.prepare({"adult.data": "\n".join(rows).encode(), "adult.test": last.encode()})
    assert len(data.train) + len(data.test) == 4
    assert sorted(np.concatenate([data.train.y, data.test.y])) == [0, 0, 1, 1]


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

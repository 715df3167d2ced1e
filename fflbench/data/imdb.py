"""Large Movie Review Dataset (Maas et al., Learning word vectors for sentiment analysis, ACL 2011)."""

import itertools
import json
import re
from pathlib import Path

import numpy as np

from fflbench.data.dataset_files import Contents, DataFile, DataSet, Download, tar_members
from fflbench.data.examples import Data, Examples
from fflbench.data.train_test_split import fixed_train_test_split
from fflbench.errors import DataError
from fflbench.progress import track_progress

LENGTH = 128
PADDING = 0
"""Index of padding."""
UNKNOWN = 1
"""Index of words that the training part does not have."""

MARKUP = re.compile(r"<[^>]*>")
INSIDE_A_WORD = re.compile(r"(?<=\w)['\u2019-](?=\w)")
WORD = re.compile(r"[^\W_]+")

MAX_FILE_BYTES = 100 * 10**6
"""Most bytes of a file: encodings differ, and common copies have 34 million."""

FILES = (
    DataFile("train.jsonl", "3303d20e331815fe811383bf993db33069cf36278394c3ac2d880df98f64bc19", MAX_FILE_BYTES),
    DataFile("test.jsonl", "9803fdda9f09b01b06d8358f9a5aaef30c543742f5b204d03d40b617a877c4bd", MAX_FILE_BYTES),
)


def split_into_words(text: str) -> list[str]:
    """Return lower-cased words without markup or punctuation; an apostrophe or hyphen in a word is removed."""
    return WORD.findall(INSIDE_A_WORD.sub("", MARKUP.sub(" ", text.lower())))


def sort_reviews(content: bytes) -> bytes:
    """Return the reviews sorted, one per line, since the archive and common copies order them differently."""
    reviews = sorted((int(review["label"]), str(review["text"])) for review in map(json.loads, content.splitlines()))
    return "".join(f"{label}\t{json.dumps(text)}\n" for label, text in reviews).encode()


def unpack_archive(file: Path) -> Contents:
    """Return the reviews of the archive, where each is a text file in a folder named after its set and class."""
    reviews: dict[str, list[str]] = {each.name: [] for each in FILES}
    for path, content in track_progress(tar_members(file), f"Unpacking {file.name}", total=100_020):
        place = re.search(r"(train|test)/(neg|pos)/[^/]+\.txt$", path)
        if place:
            try:
                text = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(f"{path} in {file.name} is damaged: it is not UTF-8 text") from error
            review = {"label": int(place[2] == "pos"), "text": text}
            reviews[f"{place[1]}.jsonl"].append(json.dumps(review))
    return {name: "\n".join(lines).encode() for name, lines in reviews.items()}


def prepare(contents: Contents) -> Data:
    """Return the last 128 words of each review as indices into the words of the training set, padded in front."""
    lines = [line.split(b"\t", 1) for each in FILES for line in contents[each.name].splitlines()]
    y = np.array([int(label) for label, _ in lines])
    tracked = track_progress(lines, "Splitting IMDB's reviews into words")
    texts = [split_into_words(json.loads(text)) for _, text in tracked]
    train, test = fixed_train_test_split(len(y))
    vocabulary = sorted(set(itertools.chain.from_iterable(texts[review] for review in train)))
    index = {word: place for place, word in enumerate(vocabulary, start=UNKNOWN + 1)}
    x = np.full((len(y), LENGTH), PADDING, np.int64)
    for row, text in zip(x, texts, strict=True):
        last = text[-LENGTH:]
        if last:
            row[-len(last) :] = [index.get(word, UNKNOWN) for word in last]
    facts = {"vocabulary": UNKNOWN + 1 + len(vocabulary)}
    return Data(Examples(x[train], y[train]), Examples(x[test], y[test]), facts)


IMDB = DataSet(
    name="imdb",
    title="IMDB",
    files=FILES,
    downloads=(
        Download(
            urls=("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
            files=("train.jsonl", "test.jsonl"),
            unpack=unpack_archive,
        ),
    ),
    prepare=prepare,
    version=1,
    classes=("negative", "positive"),
    canonical=sort_reviews,
)
"""Film reviews as 128 indices of words, praise or not: 40,000 for training and 10,000 for testing."""

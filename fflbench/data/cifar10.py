"""CIFAR-10 (Krizhevsky, Learning multiple layers of features from tiny images, 2009), from its binary version."""

from pathlib import Path

import numpy as np

from fflbench.data.dataset_files import Contents, DataFile, DataSet, Download, tar_members
from fflbench.data.examples import Data, Examples

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Mean and standard deviation of the training pixels by channel, as commonly used."""

FILE_BYTES = 10_000 * 3073
"""Bytes of a file: ten thousand records."""

MAX_ARCHIVE_BYTES = 200 * 10**6
"""Most bytes in the archive; its six files have 184 million."""

FILES = (
    DataFile("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", FILE_BYTES),
    DataFile("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", FILE_BYTES),
    DataFile("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", FILE_BYTES),
    DataFile("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", FILE_BYTES),
    DataFile("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", FILE_BYTES),
    DataFile("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", FILE_BYTES),
)


def unpack_archive(file: Path) -> Contents:
    """Return the files of the tar archive, where they are in a folder."""
    names = {each.name for each in FILES}
    return {
        Path(path).name: content for path, content in tar_members(file, MAX_ARCHIVE_BYTES) if Path(path).name in names
    }


def prepare(contents: Contents) -> Data:
    """Return normalised images and classes from records of one byte of label and 3,072 of pixels by channel."""

    def read_examples(names: list[str]) -> Examples:
        records = np.concatenate([np.frombuffer(contents[name], np.uint8).reshape(-1, 3073) for name in names])
        x = records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32)
        x /= np.float32(255)
        x -= np.array(MEAN, np.float32)[:, None, None]
        x /= np.array(STD, np.float32)[:, None, None]
        return Examples(x, records[:, 0].astype(np.int64))

    return Data(read_examples([each.name for each in FILES[:5]]), read_examples([FILES[5].name]))


CIFAR10 = DataSet(
    name="cifar10",
    title="CIFAR-10",
    files=FILES,
    downloads=(
        Download(
            urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            files=tuple(each.name for each in FILES),
            unpack=unpack_archive,
        ),
    ),
    prepare=prepare,
    version=1,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)
"""Colour photographs of 32 x 32 pixels in ten classes: 50,000 for training and 10,000 for testing."""

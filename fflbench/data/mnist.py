"""MNIST (LeCun et al., Gradient-based learning applied to document recognition, 1998)."""

import numpy as np

from fflbench.data.dataset_files import Contents, DataFile, DataSet, Download, single_file_unpacker
from fflbench.data.examples import Data, Examples
from fflbench.types import Inputs, Labels

MEAN, STD = 0.1307, 0.3081
"""Mean and standard deviation of the training pixels, as commonly used."""

MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")

FILES = (
    DataFile("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47_040_016),
    DataFile("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60_008),
    DataFile("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7_840_016),
    DataFile("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10_008),
)


def prepare(contents: Contents) -> Data:
    """Return normalised images and their classes."""

    def read_images(part: str) -> Inputs:
        pixels = np.frombuffer(contents[part], np.uint8, offset=16).reshape(-1, 1, 28, 28)
        return (pixels.astype(np.float32) / np.float32(255) - np.float32(MEAN)) / np.float32(STD)

    def read_labels(part: str) -> Labels:
        return np.frombuffer(contents[part], np.uint8, offset=8).astype(np.int64)

    return Data(
        Examples(read_images("train-images-idx3-ubyte"), read_labels("train-labels-idx1-ubyte")),
        Examples(read_images("t10k-images-idx3-ubyte"), read_labels("t10k-labels-idx1-ubyte")),
    )


MNIST = DataSet(
    name="mnist",
    title="MNIST",
    files=FILES,
    downloads=tuple(
        Download(
            urls=tuple(f"{mirror}/{each.name}.gz" for mirror in MIRRORS),
            files=(each.name,),
            unpack=single_file_unpacker(each.name, each.size),
        )
        for each in FILES
    ),
    prepare=prepare,
    version=1,
    classes=tuple("0123456789"),
)
"""Handwritten digits of 28 x 28 pixels: 60,000 for training and 10,000 for testing."""

"""Data sets that come as files, by name."""

from fflbench.data.adult import ADULT
from fflbench.data.cifar10 import CIFAR10
from fflbench.data.dataset_files import DataSet
from fflbench.data.imdb import IMDB
from fflbench.data.mnist import MNIST
from fflbench.errors import DataError, did_you_mean_hint

DATASETS = {data_set.name: data_set for data_set in (ADULT, CIFAR10, IMDB, MNIST)}


def get_dataset(name: str) -> DataSet:
    """Return the data set of this name, or raise an error that suggests the nearest one."""
    if name == "digits":
        raise DataError("digits comes with scikit-learn: there is nothing to download")
    if name not in DATASETS:
        raise DataError(
            f'there is no data set "{name}"{did_you_mean_hint(name, DATASETS)} (sets: {", ".join(DATASETS)})'
        )
    return DATASETS[name]

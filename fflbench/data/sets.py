"""Data sets that come as files, by name."""

from fflbench.data.adult import ADULT
from fflbench.data.cifar10 import CIFAR10
from fflbench.data.imdb import IMDB
from fflbench.data.mnist import MNIST
from fflbench.data.sources import DataSet
from fflbench.errors import DataError, did_you_mean

SETS = {data_set.name: data_set for data_set in (ADULT, CIFAR10, IMDB, MNIST)}


def named(name: str) -> DataSet:
    """Return the data set of a name, or raise an error with the nearest one."""
    if name == "digits":
        raise DataError("digits comes with scikit-learn: there is nothing to fetch")
    if name not in SETS:
        raise DataError(f'there is no data set "{name}"{did_you_mean(name, SETS)} (sets: {", ".join(SETS)})')
    return SETS[name]

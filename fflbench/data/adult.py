"""Adult, or census income (Kohavi, Scaling up the accuracy of naive-Bayes classifiers, KDD 1996), from UCI."""

import numpy as np
import numpy.typing as npt

from fflbench.data.dataset_files import Contents, DataFile, DataSet, Download, single_file_unpacker
from fflbench.data.examples import Data, Examples
from fflbench.data.train_test_split import fixed_train_test_split

CLASSES = ("<=50K", ">50K")

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
DROPPED = {"fnlwgt", "education", "capital-gain", "capital-loss"}
FEATURES = tuple(column for column in COLUMNS if column not in DROPPED)

FILES = (
    DataFile("adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", 3_974_305),
    DataFile("adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", 2_003_153),
)


def prepare(contents: Contents) -> Data:
    """Return ten standardised features; both files are joined without duplicate rows, four fifths for training."""
    rows = [
        tuple(cell.strip() for cell in line.rstrip(".").split(","))
        for each in FILES
        for line in contents[each.name].decode("ascii").splitlines()
        if "," in line
    ]
    table = np.array(list(dict.fromkeys(rows)))
    x = np.stack([encode_column(feature, table[:, COLUMNS.index(feature)]) for feature in FEATURES], axis=1)
    y = (table[:, -1] == CLASSES[1]).astype(np.int64)
    train, test = fixed_train_test_split(len(y))
    x = ((x - x[train].mean(0)) / x[train].std(0)).astype(np.float32)
    return Data(Examples(x[train], y[train]), Examples(x[test], y[test]))


def encode_column(feature: str, column: npt.NDArray[np.str_]) -> npt.NDArray[np.float64]:
    """Return a column as numbers: married as 1 or 0, other categories by alphabetical order ("?" is one)."""
    if feature == "marital-status":
        return np.char.startswith(column, "Married").astype(np.float64)
    if np.char.isdigit(column).all():
        return column.astype(np.float64)
    return np.unique(column, return_inverse=True)[1].astype(np.float64)


ADULT = DataSet(
    name="adult",
    title="Adult",
    files=FILES,
    downloads=tuple(
        Download(
            urls=(f"https://archive.ics.uci.edu/ml/machine-learning-databases/adult/{each.name}",),
            files=(each.name,),
            unpack=single_file_unpacker(each.name, each.size),
        )
        for each in FILES
    ),
    prepare=prepare,
    version=1,
    classes=CLASSES,
    features=FEATURES,
)
"""Whether people earn more than 50K, from ten standardised features: 39,032 for training and 9,758 for testing."""

"""Figures of cost that the FFL paper publishes (Jebreel et al., IEEE TNNLS 2022), for comparison."""

from typing import NamedTuple

from fflbench.plugin import published_results


class PublishedRuntime(NamedTuple):
    """Seconds at the server (decryption; reputation and aggregation) and at a participant (its exchange)."""

    decryption: float
    aggregation: float
    participant: float


TASKS = ("adult-mlp", "mnist-cnn", "cifar10-vgg16", "imdb-bilstm")

_AGGREGATION = {
    (10, "fedavg"): (0.001, 0.001, 0.064, 0.071),
    (10, "median"): (0.002, 0.002, 0.858, 0.816),
    (10, "trimmed-mean"): (0.003, 0.007, 1.201, 0.843),
    (10, "multi-krum"): (0.004, 0.013, 0.822, 0.690),
    (10, "foolsgold"): (0.01, 0.017, 0.497, 0.256),
    (50, "fedavg"): (0.002, 0.002, 0.194, 0.275),
    (50, "median"): (0.007, 0.008, 6.843, 4.135),
    (50, "trimmed-mean"): (0.015, 0.045, 7.097, 4.267),
    (50, "multi-krum"): (0.014, 0.015, 7.044, 5.657),
    (50, "foolsgold"): (0.042, 0.035, 1.609, 1.129),
    (100, "fedavg"): (0.004, 0.004, 0.341, 0.517),
    (100, "median"): (0.015, 0.013, 16.582, 8.926),
    (100, "trimmed-mean"): (0.035, 0.111, 16.645, 8.929),
    (100, "multi-krum"): (0.028, 0.031, 27.875, 16.893),
    (100, "foolsgold"): (0.086, 0.063, 6.180, 2.273),
}

_FFL = {
    10: ((0.064, 0.021, 0.231), (0.113, 0.016, 0.578), (0.372, 2.308, 1.106), (0.321, 1.773, 1.081)),
    50: ((0.263, 0.04, 0.239), (0.509, 0.033, 0.583), (1.875, 4.726, 1.188), (1.612, 3.536, 1.174)),
    100: ((0.359, 0.043, 0.249), (1.01, 0.035, 0.594), (3.675, 4.883, 1.319), (3.236, 3.583, 1.282)),
}

RUNTIME = {
    (task, n, rule): PublishedRuntime(0, seconds[place], 0)
    for (n, rule), seconds in _AGGREGATION.items()
    for place, task in enumerate(TASKS)
} | {(task, n, "ffl"): PublishedRuntime(*parts[place]) for n, parts in _FFL.items() for place, task in enumerate(TASKS)}
"""Seconds by task, number of updates and defense: table "CPU runtime in seconds"."""

COMPLEXITY = {
    "median": "n log n D",
    "trimmed-mean": "n log n D",
    "multi-krum": "n² D",
    "foolsgold": "n² D_L",
    "ffl": "n (D + log n + D_L log n + D_L + 1)",
}
"""Complexity at the server, with D_L the length of the last layer: table "Comparison of computation overhead"."""


class PublishedCommunication(NamedTuple):
    """Seconds of a participant with the server, with other participants, of latency, and in all."""

    server: float
    between: float
    latency: float
    total: float


COMMUNICATION = {
    ("mnist-cnn", "fedavg"): PublishedCommunication(0.1033, 0, 0.0580, 0.1613),
    ("mnist-cnn", "ffl"): PublishedCommunication(0.1036, 0.3241, 0.1740, 0.6018),
    ("mnist-cnn", "brea"): PublishedCommunication(0.4728, 16147.8060, 5800.0870, 21948.3658),
    ("cifar10-vgg16", "fedavg"): PublishedCommunication(69.6217, 0, 0.0580, 69.6797),
    ("cifar10-vgg16", "ffl"): PublishedCommunication(69.6220, 217.6939, 0.1740, 287.4900),
    ("cifar10-vgg16", "brea"): PublishedCommunication(69.9912, 10884637.4134, 5800.0870, 10890507.4916),
}
"""Seconds by task and method: table "Comparison of communication time"."""

published_results.register("runtime", RUNTIME)
published_results.register("complexity", COMPLEXITY)
published_results.register("communication", COMMUNICATION)

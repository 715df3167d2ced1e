"""Seconds a rule takes on 50 x 1,000,000: ours on one thread and on all, beside what torch and a plain loop offer."""

import os

import numpy as np
import torch

from benchmarks.timing import show, take_turns
from fflbench import aggregate, kernels

N, D, F = 50, 1_000_000, 10


def main() -> None:
    """The paper's five rules; for FoolsGold all columns count as the last layer here, far more than any model has."""
    torch.set_num_threads(os.cpu_count() or 1)
    updates = np.random.default_rng(0).standard_normal((N, D), dtype=np.float32)
    tensor = torch.from_numpy(updates)

    def krum_loop() -> torch.Tensor:
        distances = torch.tensor([[((a - b) ** 2).sum() for b in tensor] for a in tensor])
        scores = distances.sort(1).values[:, 1 : N - F - 1].sum(1)
        return tensor[scores.argsort()[: N - F]].mean(0)

    def foolsgold_torch() -> torch.Tensor:
        directions = tensor / tensor.norm(dim=1, keepdim=True)
        return (directions @ directions.T).amax(1) @ tensor

    others = {
        "fedavg": {"torch": lambda: tensor.mean(0)},
        "median": {"torch": lambda: tensor.median(0)},
        "trimmed-mean": {"torch": lambda: tensor.sort(0).values[F : N - F].mean(0)},
        "multi-krum": {"torch": krum_loop},
        "foolsgold": {"torch": foolsgold_torch},
    }
    rows = {}
    for rule, sides in others.items():
        parameters = {"f": F} if rule in ("trimmed-mean", "multi-krum") else {}

        def ours(threads: int, rule: str = rule, parameters: dict[str, int] = parameters) -> None:
            with kernels.threads(threads):
                aggregate(rule, updates, **parameters)

        rows[rule] = take_turns(
            rule,
            {
                **sides,
                "fflbench, 1 thread": lambda: ours(1),
                f"fflbench, {os.cpu_count()} threads": lambda: ours(os.cpu_count() or 1),
            },
            repeats=2 if rule == "multi-krum" else 3,
        )
    show(f"Aggregating {N} x {D:,}, torch with {torch.get_num_threads()} threads", "torch", rows)


if __name__ == "__main__":
    main()

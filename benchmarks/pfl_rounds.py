"""Rounds of the same work in pfl-research.

Granqvist et al., pfl-research: simulation framework for accelerating research in private federated learning, NeurIPS
2024.

`python -m benchmarks.pfl_rounds adult-mlp --rounds 20` prints one line of JSON. pfl is set up as its guide to fast
simulations says: torchrun starts the processes, which share every cohort, and participants keep their examples in
memory, cut into batches once. So pfl does not shuffle them between epochs, which our engines do.
With `--tuned` it also gets two optimisations of our engines that its examples do not have: channels-last images and a
fused optimiser.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fflbench import registry
from fflbench.registry import Kind
from fflbench.tasks import Task


class PflModule(nn.Module):
    """The task's model with the two methods that pfl requires of a module."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model = task.model()
        self.binary = task.loss == "binary-cross-entropy"

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        if self.binary:
            return F.binary_cross_entropy_with_logits(self.model(x).squeeze(1), y)
        return F.cross_entropy(self.model(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        """Return no metrics, since nothing is evaluated."""
        return {}


def examples_by_participant(task: Task, tuned: bool) -> list[tuple[Tensor, Tensor]]:
    """Return the examples of each participant, as the loss takes them."""
    data = task.data()
    x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
    if task.loss == "binary-cross-entropy":
        y = y.float()
    layout = torch.channels_last if tuned and x.ndim == 4 else torch.contiguous_format
    return [(x[own].to(memory_format=layout), y[own]) for own in task.divide(data.train.y, seed=0)]


def time_rounds(task: Task, rounds: int, tuned: bool) -> float:
    """Return the seconds of the rounds after one to warm up; every process calls this and trains its share."""
    # Imported here because the import makes this process join the others.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    torch.set_num_threads(1)
    # The processes must begin with the same model and sample the same cohorts.
    np.random.seed(0)
    torch.manual_seed(0)

    # The same objects every round, since they cache their batches.
    held = [Dataset(own) for own in examples_by_participant(task, tuned)]
    participants = FederatedDataset(held.__getitem__, get_user_sampler("minimize_reuse", range(len(held))))
    backend = SimulatedBackend(participants, participants, postprocessors=[WeightByDatapoints()])
    if task.optimizer == "adam":
        optimizer = partial(torch.optim.Adam, fused=tuned)
    else:
        optimizer = partial(torch.optim.SGD, momentum=task.momentum, fused=tuned)
    learner = PflModule(task)
    model = PyTorchModel(learner, optimizer, torch.optim.SGD(learner.parameters(), lr=1.0))
    local = NNTrainHyperParams(
        local_batch_size=task.batch_size,
        local_num_epochs=task.local_epochs,
        local_learning_rate=task.learning_rate,
    )
    algorithm = FederatedAveraging()

    def run_until(until: int) -> None:
        # pfl evaluates in round 0, the warm-up, and then every so many rounds.
        central = NNAlgorithmParams(
            central_num_iterations=until,
            evaluation_frequency=rounds + 1,
            train_cohort_size=task.per_round,
            val_cohort_size=None,
        )
        algorithm.run(central, backend, model, local, send_metrics_to_platform=False)

    run_until(1)
    start = time.perf_counter()
    run_until(1 + rounds)
    return time.perf_counter() - start


def relaunch_with_torchrun(count: int) -> int:
    """Run this command in several distributed processes on CPUs, and return the exit code."""
    torchrun = ["torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m", "benchmarks.pfl_rounds"]
    # pfl queries the device with every batch, and would exchange updates between GPUs wherever it sees one.
    environment = os.environ | {"PFL_PYTORCH_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", *torchrun, *sys.argv[1:]], env=environment).returncode


def main() -> None:
    """Start the processes, and run the rounds in each of them."""
    parser = argparse.ArgumentParser(description="Seconds that pfl-research takes for rounds of a task.")
    parser.add_argument("task")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tuned", action="store_true")
    given = parser.parse_args()
    if find_spec("pfl") is None:
        print("pfl-research is not installed: pip install 'fflbench[peers]'", file=sys.stderr)
        sys.exit(2)
    task: Task = registry.get(Kind.TASK, given.task).create()
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        sys.exit(relaunch_with_torchrun(given.processes))
    seconds = time_rounds(task, given.rounds, given.tuned)
    if os.environ["RANK"] == "0":
        print(json.dumps({"rounds": given.rounds, "seconds": round(seconds, 3)}), flush=True)
    # All processes leave together, or those that still communicate abort.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

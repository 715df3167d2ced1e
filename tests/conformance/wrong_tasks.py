"""Wrong tasks, engines and executors."""

from typing import ClassVar

import numpy as np
from torch import nn

from fflbench.conformance.small_federation import SmallDigits
from fflbench.engines.loop import Loop
from fflbench.execution.jobs_and_events import Finished
from fflbench.execution.run_cell import run_cell
from fflbench.plugin import Data, Examples, engine, executor, task
from fflbench.registry import Kind
from tests.conformance.wrong_plugins import refused

TASK, ENGINE = Kind.TASK, Kind.ENGINE


@refused(
    TASK,
    "data",
    'task "wrong" returned inputs of the training part as float64 of shape (320, 1, 8, 8), and must return '
    "float32 of shape (320, 1, 8, 8)",
)
def has_inputs_in_double_precision():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def data(self):
            whole = super().data()
            return Data(Examples(whole.train.x.astype(np.float64), whole.train.y), whole.test)


@refused(TASK, "data", 'task "wrong" has labels in the training part that are none of its 2 classes, 0 to 1')
def has_labels_beyond_its_classes():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        classes = ("even", "odd")


@refused(TASK, "partition", 'task "wrong" gives the same training example to two participants')
def gives_everybody_everything():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def divide(self, y, seed):
            return [np.arange(len(y))] * self.participants


@refused(
    TASK,
    "partition",
    'task "wrong" gave other bits when it was called again with the same inputs and generators',
)
def divides_by_the_global_generator():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def divide(self, y, seed):
            return np.array_split(np.random.permutation(len(y)), self.participants)


@refused(TASK, "parameter-count", 'task "wrong" counts 7 parameters of a model with 610')
def counts_another_model():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def parameter_count(self):
            return 7


@refused(TASK, "model-outputs", 'task "wrong" has a model with outputs of shape (2, 9), and must have (2, 10)')
def has_one_output_too_few():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def model(self):
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 9))


@refused(
    TASK,
    "attack-defaults",
    'task "wrong": attack "gaussian-noise" has no parameter "sigmas"; did you mean "sigma"? (valid: share '
    "(float, default 0.2), sigma (float, default 0.5))",
)
def sets_a_parameter_that_no_attack_has():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        attack_defaults: ClassVar = {"gaussian-noise": {"sigmas": 0.2}}


@refused(TASK, "attack-defaults", 'task "wrong": source = 7 and target = 10 must be two of 10 classes, from 0')
def flips_labels_that_it_does_not_have():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        attack_defaults: ClassVar = {"label-flipping": {"source": 7, "target": 10}}


@refused(
    TASK,
    "trait",
    'task "wrong" returned the trait as int64 of shape (320,), and must return bool of shape (320,)',
)
def has_a_trait_of_numbers():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def trait(self, examples):
            return examples.y


@refused(TASK, "training-step", 'task "wrong" has a model that a step of training leaves as it is')
def has_a_model_that_does_not_learn():
    class Dead(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 0

    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def model(self):
            return nn.Sequential(nn.Flatten(), Dead(64, 10))


@refused(
    TASK,
    "determinism",
    'task "wrong" gave other bits when it was called again with the same inputs and generators',
)
def starts_from_the_global_generator():
    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        def model(self):
            model = super().model()
            nn.init.constant_(model[1].bias, np.random.rand())
            return model


@refused(
    TASK,
    "same-as-loop",
    'task "wrong" gets other updates from its engine "wrong-engine" than from training one by one',
)
def names_an_engine_that_is_wrong():
    @engine("wrong-engine", title="Wrong")
    def wrong(model, data):
        return Doubled(model, data)

    @task("wrong", title="Wrong")
    class Wrong(SmallDigits):
        engine = "wrong-engine"


class Doubled(Loop):
    """Trains twice as far as it should."""

    def train(self, weights, participants, round):
        return 2 * super().train(weights, participants, round)


@refused(ENGINE, "same-as-loop", 'engine "wrong" gave other updates than training one by one, with its defaults')
def trains_twice_as_far():
    @engine("wrong", title="Wrong")
    def wrong(model, data):
        return Doubled(model, data)


@refused(ENGINE, "same-as-loop", 'engine "wrong" gave other updates than training one by one, with dropout')
def draws_other_random_numbers():
    @engine("wrong", title="Wrong")
    def wrong(model, data):
        data.torch_seed = lambda participant, round: 0
        return Loop(model, data)


@refused(
    ENGINE,
    "update-shape",
    'engine "wrong" returned updates as float32 of shape (610,), and must return float32 of shape (3, 610)',
)
def returns_one_update_for_all():
    @engine("wrong", title="Wrong")
    def wrong(model, data):
        class Mean(Loop):
            def train(self, weights, participants, round):
                return super().train(weights, participants, round).mean(0)

        return Mean(model, data)


@refused(
    ENGINE,
    "determinism",
    'engine "wrong" gave other bits when it was called again with the same inputs and generators',
)
def adds_noise_of_the_global_generator():
    @engine("wrong", title="Wrong")
    def wrong(model, data):
        class Noisy(Loop):
            def train(self, weights, participants, round):
                return super().train(weights, participants, round) + np.float32(np.random.rand())

        return Noisy(model, data)


@refused(ENGINE, "inputs-unchanged", 'engine "wrong" changed the weights, which must stay as before')
def trains_the_global_weights():
    @engine("wrong", title="Wrong")
    def wrong(model, data):
        class InPlace(Loop):
            def train(self, weights, participants, round):
                updates = super().train(weights, participants, round)
                weights += updates[0]
                return updates

        return InPlace(model, data)


@refused(Kind.EXECUTOR, "one-record-per-cell", 'executor "wrong" gave 0 records for a cell, and must give one')
def runs_only_the_first_cell():
    @executor("wrong", title="Wrong")
    def wrong(jobs, settings):
        cell = jobs[-1].cell
        yield Finished(cell, run_cell(cell, settings.suite))


@refused(
    Kind.EXECUTOR,
    "one-record-per-cell",
    'executor "wrong" gave other metrics or another history than running the cell in this process',
)
def mixes_up_records():
    @executor("wrong", title="Wrong")
    def wrong(jobs, settings):
        record = run_cell(jobs[0].cell, settings.suite)
        for job in jobs:
            yield Finished(job.cell, record)

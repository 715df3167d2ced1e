"""All that the author of a plugin imports."""

from fflbench.arrays.columns import Columns
from fflbench.arrays.kernels import over_sorted_columns, row_norms, weighted_mean
from fflbench.data import Data, Examples
from fflbench.errors import ParameterError
from fflbench.federation.attack import Attack, AttackSetting, Goal, Known, LocalTraining
from fflbench.federation.rule import NoAnswerError, Rule, require_rows
from fflbench.federation.transport import Deviation, Feedback, ServerSetting, Setting, Transport
from fflbench.federation.views import ObservedUpdates, ParticipantView, Rows, Transcript, Upload, View
from fflbench.registration import (
    attack,
    chain,
    engine,
    executor,
    measure,
    observation,
    preaggregation,
    privacy_attack,
    rule,
    task,
    transport,
)
from fflbench.tasks import Task
from fflbench.types import Coefficients, Indices, Labels, Matrix, Vector

__all__ = [
    "Attack",
    "AttackSetting",
    "Coefficients",
    "Columns",
    "Data",
    "Deviation",
    "Examples",
    "Feedback",
    "Goal",
    "Indices",
    "Known",
    "Labels",
    "LocalTraining",
    "Matrix",
    "NoAnswerError",
    "ObservedUpdates",
    "ParameterError",
    "ParticipantView",
    "Rows",
    "Rule",
    "ServerSetting",
    "Setting",
    "Task",
    "Transcript",
    "Transport",
    "Upload",
    "Vector",
    "View",
    "attack",
    "chain",
    "engine",
    "executor",
    "measure",
    "observation",
    "over_sorted_columns",
    "preaggregation",
    "privacy_attack",
    "require_rows",
    "row_norms",
    "rule",
    "task",
    "transport",
    "weighted_mean",
]

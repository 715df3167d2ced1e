"""All that the author of a plugin imports.

Built-in plugins import nothing else of this package beside modules of their own. `__all__` is grouped by kind of
plugin. Names that need torch are loaded on first use: import them inside functions, and for annotations under
`TYPE_CHECKING`, so that plugins are listed without loading torch. So are those that authors of executors need.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from fflbench.arrays.columns import Columns
from fflbench.arrays.kernels import (
    clipping_factors,
    compact,
    distances_from,
    finite_rows,
    gram,
    over_columns,
    over_sorted_columns,
    row_norms,
    squared_distances,
    weighted_mean,
)
from fflbench.arrays.kernels import threads as kernel_threads
from fflbench.arrays.threads import one_thread
from fflbench.attacker_tolerance import is_undefined_reason
from fflbench.crypto import keystream
from fflbench.crypto.diffie_hellman import DIFFIE_HELLMAN_GROUPS, DiffieHellmanGroup
from fflbench.crypto.entropy import Entropy, derive_key
from fflbench.crypto.errors import ProtocolError
from fflbench.crypto.rsa_oaep import ENCRYPTED_SEED_BYTES, ServerPrivateKey, ServerPublicKey
from fflbench.data.adult import ADULT
from fflbench.data.cifar10 import CIFAR10
from fflbench.data.dataset_files import DataSet
from fflbench.data.digits import load as load_digits
from fflbench.data.examples import Data, Examples
from fflbench.data.imdb import IMDB
from fflbench.data.imdb import PADDING as IMDB_PADDING
from fflbench.data.mnist import MNIST
from fflbench.errors import ParameterError
from fflbench.federation.attack import Attack, AttackSetting, Goal, Known, LocalTraining
from fflbench.federation.attack_chain import AttackWrapper
from fflbench.federation.chain import Chain
from fflbench.federation.ledger import Direction, Ledger
from fflbench.federation.messages import SERVER, Bytes, FeedbackMessage, Message, MessagePart, check_header
from fflbench.federation.rule import NoAnswerError, Rule, require_rows
from fflbench.federation.time_estimates import Timing
from fflbench.federation.transport import Deviation, Feedback, ServerSetting, Setting, Transport
from fflbench.federation.views import ObservedUpdates, ParticipantView, Rows, Transcript, Upload, View
from fflbench.measures import one_round, published_results
from fflbench.measures.measure import PROCESS_BYTES, Context, Curve, Measure, Outcome
from fflbench.metrics import HIGHER, LOWER, NO_DRIFT, Metric, share, with_floor
from fflbench.plugin_parameters import AddedLater
from fflbench.privacy import distinguishing, member_split, property_attack, reconstruction_quality, roc
from fflbench.privacy.distinguishing_advantage import GuessCounts
from fflbench.privacy.membership_attack import (
    AUXILIARY,
    CONTROLLED,
    MembershipAttack,
    MembershipObserver,
)
from fflbench.privacy.observation import (
    NO_OBSERVATION,
    Coalition,
    Observation,
    linear_weight_names,
    observe,
    participants_to_watch,
)
from fflbench.privacy.privacy_measure import (
    PrivacyFacts,
    PrivacyMeasure,
    examples_trained_per_round,
    gradient_seconds,
    inversion_step_seconds,
    training_seconds_per_example,
)
from fflbench.privacy.property_attack import PropertyAttack, PropertyObserver
from fflbench.privacy.reconstruction_attack import (
    LABELS,
    ObservedGradients,
    ReconstructedExamples,
    ReconstructionAttack,
    TrainingProtocol,
)
from fflbench.randomness import stream
from fflbench.records.cell_configuration import GOALS, defense_parts, goal_of
from fflbench.records.npz_file import Arrays
from fflbench.records.record import Record
from fflbench.records.validation import Count, NotNegative, Number, PositiveCount, RecordFields, Share, Text
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
    suites_in,
    task,
    transport,
)
from fflbench.registry import Kind
from fflbench.report import record_groups, sweeps
from fflbench.report.figure_files import ReportFigure, figure_with_panels, line_style
from fflbench.report.image_grid import image_grid
from fflbench.report.metric_tables import baseline_runs_without_attack
from fflbench.report.published_tables import tables_beside_papers
from fflbench.report.statistics import estimate_mean, mean_and_spread, paired_difference
from fflbench.report.table_model import Column, FilledColumn, Table, TableCell, best_first
from fflbench.report.worst_cases import worst_case_column
from fflbench.safe_texts import slug
from fflbench.tasks import Task
from fflbench.types import Coefficients, Indices, Inputs, Labels, Matrix, State, Vector

if TYPE_CHECKING:
    from fflbench.engines.engine import Engine, LocalData
    from fflbench.engines.flat_model import FlatModel
    from fflbench.engines.losses import losses
    from fflbench.execution.jobs_and_events import (
        Events,
        Finished,
        Interrupted,
        Job,
        Note,
        Progress,
        RunSettings,
        Started,
    )
    from fflbench.execution.run_cell import run_cell
    from fflbench.federation.rounds import Federation, new_model
    from fflbench.privacy import victim_updates
    from fflbench.privacy.cosine_inversion import invert_by_cosine
    from fflbench.privacy.gradient_inversion import infer_labels, invert_gradients
    from fflbench.privacy.per_example_signals import GRADIENT_VALUES, PerExampleSignals, parameter_names
    from fflbench.privacy.shadow_rounds import ShadowObservation, ShadowRounds
    from fflbench.privacy.two_world_game import TwoWorldGame, prepare_two_world_game
    from fflbench.privacy.unrolled_inversion import invert_unrolled

LOADED_ON_FIRST_USE = {
    "Engine": "fflbench.engines.engine:Engine",
    "Events": "fflbench.execution.jobs_and_events:Events",
    "Federation": "fflbench.federation.rounds:Federation",
    "Finished": "fflbench.execution.jobs_and_events:Finished",
    "FlatModel": "fflbench.engines.flat_model:FlatModel",
    "GRADIENT_VALUES": "fflbench.privacy.per_example_signals:GRADIENT_VALUES",
    "Interrupted": "fflbench.execution.jobs_and_events:Interrupted",
    "Job": "fflbench.execution.jobs_and_events:Job",
    "LocalData": "fflbench.engines.engine:LocalData",
    "Note": "fflbench.execution.jobs_and_events:Note",
    "PerExampleSignals": "fflbench.privacy.per_example_signals:PerExampleSignals",
    "Progress": "fflbench.execution.jobs_and_events:Progress",
    "RunSettings": "fflbench.execution.jobs_and_events:RunSettings",
    "ShadowObservation": "fflbench.privacy.shadow_rounds:ShadowObservation",
    "ShadowRounds": "fflbench.privacy.shadow_rounds:ShadowRounds",
    "TwoWorldGame": "fflbench.privacy.two_world_game:TwoWorldGame",
    "Started": "fflbench.execution.jobs_and_events:Started",
    "infer_labels": "fflbench.privacy.gradient_inversion:infer_labels",
    "invert_gradients": "fflbench.privacy.gradient_inversion:invert_gradients",
    "invert_by_cosine": "fflbench.privacy.cosine_inversion:invert_by_cosine",
    "invert_unrolled": "fflbench.privacy.unrolled_inversion:invert_unrolled",
    "losses": "fflbench.engines.losses:losses",
    "new_model": "fflbench.federation.rounds:new_model",
    "prepare_two_world_game": "fflbench.privacy.two_world_game:prepare_two_world_game",
    "parameter_names": "fflbench.privacy.per_example_signals:parameter_names",
    "run_cell": "fflbench.execution.run_cell:run_cell",
    "victim_updates": "fflbench.privacy.victim_updates",
}
"""Where names are that are loaded on first use."""

__all__ = [  # noqa: RUF022, grouped for readers
    # Decorators and calls that register a plugin
    "attack",
    "chain",
    "engine",
    "executor",
    "measure",
    "observation",
    "preaggregation",
    "privacy_attack",
    "rule",
    "suites_in",
    "task",
    "transport",
    # Every plugin: types of arrays, errors, random generators, parameters
    "AddedLater",
    "Coefficients",
    "Columns",
    "Indices",
    "Inputs",
    "Labels",
    "Matrix",
    "ParameterError",
    "Vector",
    "stream",
    # Rules and pre-aggregations; arithmetic on large matrices
    "Feedback",
    "NoAnswerError",
    "Rule",
    "ServerSetting",
    "View",
    "clipping_factors",
    "distances_from",
    "gram",
    "over_columns",
    "over_sorted_columns",
    "require_rows",
    "row_norms",
    "squared_distances",
    "weighted_mean",
    # Transports: their views and messages
    "Bytes",
    "Deviation",
    "FeedbackMessage",
    "Message",
    "MessagePart",
    "ObservedUpdates",
    "ParticipantView",
    "Rows",
    "SERVER",
    "Setting",
    "Transcript",
    "Transport",
    "Upload",
    "check_header",
    "compact",
    "finite_rows",
    # Transports: cryptography
    "DIFFIE_HELLMAN_GROUPS",
    "DiffieHellmanGroup",
    "Entropy",
    "ServerPrivateKey",
    "ProtocolError",
    "ENCRYPTED_SEED_BYTES",
    "ServerPublicKey",
    "derive_key",
    "keystream",
    # Poisoning attacks
    "Attack",
    "AttackSetting",
    "AttackWrapper",
    "Goal",
    "Known",
    "LocalTraining",
    # Tasks and data sets
    "ADULT",
    "CIFAR10",
    "Data",
    "DataSet",
    "Examples",
    "IMDB",
    "IMDB_PADDING",
    "MNIST",
    "Task",
    "load_digits",
    # Executors
    "Events",
    "Finished",
    "Interrupted",
    "Job",
    "Note",
    "Progress",
    "RunSettings",
    "Started",
    "run_cell",
    # Engines of local training
    "Engine",
    "FlatModel",
    "LocalData",
    "losses",
    # Privacy attacks: reconstruction, membership inference, property inference
    "ReconstructedExamples",
    "MembershipAttack",
    "MembershipObserver",
    "ObservedGradients",
    "ReconstructionAttack",
    "TrainingProtocol",
    "PropertyAttack",
    "PropertyObserver",
    "infer_labels",
    "invert_gradients",
    "invert_by_cosine",
    "invert_unrolled",
    "member_split",
    "parameter_names",
    "property_attack",
    # Observations of a round
    "Coalition",
    "Observation",
    "linear_weight_names",
    # Measures: contract, metrics, content of records
    "Arrays",
    "Chain",
    "RecordFields",
    "Context",
    "Count",
    "Curve",
    "HIGHER",
    "Kind",
    "LOWER",
    "Measure",
    "Metric",
    "NotNegative",
    "Number",
    "Outcome",
    "PROCESS_BYTES",
    "Record",
    "NO_DRIFT",
    "Share",
    "PositiveCount",
    "State",
    "Text",
    "Timing",
    "share",
    "with_floor",
    # Measures: rounds to run
    "Direction",
    "Federation",
    "Ledger",
    "kernel_threads",
    "new_model",
    "one_round",
    "one_thread",
    # Measures of privacy
    "AUXILIARY",
    "CONTROLLED",
    "LABELS",
    "PerExampleSignals",
    "GRADIENT_VALUES",
    "NO_OBSERVATION",
    "PrivacyFacts",
    "PrivacyMeasure",
    "ShadowObservation",
    "ShadowRounds",
    "GuessCounts",
    "TwoWorldGame",
    "distinguishing",
    "prepare_two_world_game",
    "observe",
    "roc",
    "reconstruction_quality",
    "gradient_seconds",
    "inversion_step_seconds",
    "training_seconds_per_example",
    "victim_updates",
    "participants_to_watch",
    "examples_trained_per_round",
    # Tables and figures of measures
    "Column",
    "FilledColumn",
    "GOALS",
    "ReportFigure",
    "Table",
    "TableCell",
    "goal_of",
    "is_undefined_reason",
    "figure_with_panels",
    "image_grid",
    "line_style",
    "best_first",
    "defense_parts",
    "estimate_mean",
    "mean_and_spread",
    "paired_difference",
    "published_results",
    "record_groups",
    "slug",
    "sweeps",
    "tables_beside_papers",
    "baseline_runs_without_attack",
    "worst_case_column",
]


def __getattr__(name: str) -> Any:
    """Load a name on its first use."""
    if name in LOADED_ON_FIRST_USE:
        return resolve_name(LOADED_ON_FIRST_USE[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

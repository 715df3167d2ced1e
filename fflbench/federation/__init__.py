"""The federation: participants who train, attackers among them, a transport for their updates, and a server."""

from fflbench.arrays.columns import Columns
from fflbench.federation.attack import Attack, Known
from fflbench.federation.rule import NoAnswerError, Rule, require_rows
from fflbench.federation.transport import Deviation, Feedback, ServerSetting, Setting, Transport
from fflbench.federation.views import ObservedUpdates, ParticipantView, Rows, Transcript, Upload, View

__all__ = [
    "Attack",
    "Columns",
    "Deviation",
    "Feedback",
    "Known",
    "NoAnswerError",
    "ObservedUpdates",
    "ParticipantView",
    "Rows",
    "Rule",
    "ServerSetting",
    "Setting",
    "Transcript",
    "Transport",
    "Upload",
    "View",
    "require_rows",
]

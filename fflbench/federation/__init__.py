"""The federation: participants who train, attackers among them, and a server with a defense."""

from fflbench.federation.attack import Attack, Known
from fflbench.federation.columns import Columns
from fflbench.federation.defense import Defense
from fflbench.federation.views import Sent, ServerView

__all__ = ["Attack", "Columns", "Defense", "Known", "Sent", "ServerView"]

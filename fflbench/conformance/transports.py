"""Checks of transports."""

import json
from typing import Any, get_args

import numpy as np

from fflbench.conformance.check_registry import (
    register_check,
    require,
    require_array,
    require_finite,
    require_same_bits,
    require_unchanged,
)
from fflbench.conformance.small_federation import COLUMNS, MODEL, chain_with_plugin, random_updates
from fflbench.crypto.entropy import Entropy
from fflbench.errors import ParameterError
from fflbench.federation.chain import Chain
from fflbench.federation.transport import Setting
from fflbench.federation.views import Transcript, View
from fflbench.plugin_parameters import type_without_metadata
from fflbench.registry import Entry, Kind
from fflbench.types import Indices

SIZES = np.arange(5, 13)
SENDERS = np.array([0, 2, 3, 5])


def begin_chain(entry: Entry, per_round: int = len(SENDERS), **given: Any) -> Chain:
    """Return a chain with the transport before its first round."""
    chain = chain_with_plugin(entry, **given)
    chain.begin(Setting(len(SIZES), per_round, SIZES, COLUMNS), 0)
    return chain


def transmit_random_updates(
    chain: Chain, senders: Indices = SENDERS, attackers: Indices | None = None, seed: int = 0, watch: Any = ()
) -> Transcript:
    """Return the transcript of a round of random updates."""
    rows = random_updates(len(senders), seed=seed)
    return chain.transmit(0, MODEL, senders, rows, attackers=attackers, watch=watch)


def _view_fields(view: View) -> list[Any]:
    return [view.rows, view.weights, view.participants, view.sizes, view.scale]


@register_check(Kind.TRANSPORT)
def check_server_view(entry: Entry) -> None:
    """Check that the server sees finite float32 rows as the transport declares them, with weights and senders."""
    view, declared = transmit_random_updates(begin_chain(entry)).server, entry.target.rows
    require_array(entry, "the server's rows", view.rows, (len(view.rows), COLUMNS.count))
    require_finite(entry, "the server's rows", view.rows)
    n = len(view.rows)
    require(n, entry, "showed the server no row of a round in which nothing failed")
    require(declared != "sum" or n == 1, entry, f"declares that the server sees a sum, and showed it {n} rows")
    require(
        declared != "participant" or np.array_equal(view.participants, SENDERS),  # type: ignore[arg-type]
        entry,
        "declares one row per participant, and did not show the server one from each",
    )
    known = view.participants is None or np.isin(view.participants, SENDERS).all()
    require(known, entry, "showed the server rows of participants who sent none")
    require((np.asarray(view.weights) > 0).all(), entry, "gave a row no positive weight")


@register_check(Kind.TRANSPORT)
def check_single_sender(entry: Entry) -> None:
    """Check that a round of one participant gives rows, or is refused with a ParameterError before the first round."""
    try:
        chain = begin_chain(entry, 1)
    except ParameterError:
        return
    view = transmit_random_updates(chain, SENDERS[:1]).server
    require_array(entry, "the server's rows", view.rows, (len(view.rows), COLUMNS.count))


@register_check(Kind.TRANSPORT)
def check_determinism(entry: Entry) -> None:
    """Check that the same updates and entropy give the same bits."""
    require_same_bits(
        entry,
        lambda: _view_fields(transmit_random_updates(begin_chain(entry)).server),
        lambda: _view_fields(transmit_random_updates(begin_chain(entry), seed=1).server),
    )


@register_check(Kind.TRANSPORT)
def check_inputs_unchanged(entry: Entry) -> None:
    """Check that the model, the senders and their numbers of examples stay as they are; rows may be overwritten."""
    chain, model, senders, sizes = begin_chain(entry), MODEL.copy(), SENDERS.copy(), SIZES.copy()
    chain.begin(Setting(len(sizes), len(senders), sizes, COLUMNS), 0)
    with require_unchanged(entry, model=model, senders=senders, sizes=sizes):
        chain.transmit(0, model, senders, random_updates(len(senders)))


@register_check(Kind.TRANSPORT)
def check_attackers_treated_alike(entry: Entry) -> None:
    """Check that who attacks makes no difference to the first round as long as everybody follows the protocol."""
    one = _view_fields(transmit_random_updates(begin_chain(entry)).server)
    other = _view_fields(transmit_random_updates(begin_chain(entry), attackers=SENDERS[:2]).server)
    same = all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    require(same, entry, "treated attackers in another way, and must not use who they are unless they deviate")


@register_check(Kind.TRANSPORT)
def check_watched_views(entry: Entry) -> None:
    """Check that the transcript holds the views of watched participants, with their updates as they were sent."""
    views = transmit_random_updates(begin_chain(entry), watch=SENDERS.tolist()).participants
    absent = sorted(set(SENDERS.tolist()) - set(views))
    require(not absent, entry, f"left the view of participant {min(absent, default='')} out, which was to be watched")
    for who, view in views.items():
        require_array(entry, f"the update in the view of participant {who}", view.update, (COLUMNS.count,))


@register_check(Kind.TRANSPORT)
def check_facts_are_json(entry: Entry) -> None:
    """Check that the facts of a round are JSON values."""
    transcript = transmit_random_updates(begin_chain(entry))
    try:
        json.dumps(transcript.facts, allow_nan=False)
    except (TypeError, ValueError) as error:
        require(False, entry, f"gave facts of a round that no record can hold ({error})")


@register_check(Kind.TRANSPORT)
def check_simulated_round(entry: Entry) -> None:
    """Check that a simulated round leaves the transport's memory as it is."""
    chain = begin_chain(entry)
    transport = chain.transport
    twin = Chain(transport.simulation_copy(Entropy(1)), [], chain.rule)
    twin.setting, twin._seed = chain.setting, 1
    with require_unchanged(entry, **{"memory of the real transport": transport.memory}):
        twin._deliver(transmit_random_updates(twin), dict.fromkeys(SENDERS.tolist(), 0.5))


def _has_fast_and_full_mode(entry: Entry) -> bool:
    modes = [get_args(type_without_metadata(each.annotation)) for each in entry.parameters if each.name == "mode"]
    return any({"fast", "full"} <= set(values) for values in modes)


@register_check(Kind.TRANSPORT, applies=_has_fast_and_full_mode)
def check_modes_agree(entry: Entry) -> None:
    """Check that the mean of the server's rows is the same in fast and in full mode, up to rounding."""
    senders, means = np.arange(max(entry.target.multiple, 2)), []
    for mode in ("fast", "full"):
        chain = begin_chain(entry, len(senders), mode=mode)
        means.append(chain.aggregate(transmit_random_updates(chain, senders)))
    same = np.allclose(means[0], means[1], rtol=1e-4, atol=1e-5)
    require(same, entry, 'showed the server rows with another mean with mode = "fast" than with mode = "full"')

"""Checks of observations, behind every transport that they apply to."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fflbench import registry
from fflbench.conformance.check_registry import (
    register_check,
    require,
    require_array,
    require_finite,
    require_same_bits,
    require_unchanged,
)
from fflbench.conformance.measures import require_declared_metrics
from fflbench.conformance.small_cells import SmallCell, attacks_taken_by, installed_transports, small_cell
from fflbench.conformance.small_federation import COLUMNS, MODEL, chain_with_plugin, random_updates
from fflbench.federation.chain import Chain
from fflbench.federation.transport import Setting
from fflbench.federation.views import ObservedUpdates, Transcript
from fflbench.privacy.observation import Observation, observe, participants_to_watch
from fflbench.registry import Entry, Kind

SENDERS = 4
LINEAR = ("first.weight", "last.weight")


def transmit_behind_transports(entry: Entry) -> Iterator[tuple[Chain, Transcript]]:
    """Return one round behind each transport that an observation applies to."""
    observation: Observation = entry.create()
    for transport in installed_transports():
        chain = chain_with_plugin(transport)
        if observation.applies_to(chain.transport):
            chain.begin(Setting(SENDERS, SENDERS, np.full(SENDERS, 3), COLUMNS), 0)
            senders = np.arange(SENDERS)
            watch = participants_to_watch(observation, senders.tolist())
            yield chain, chain.transmit(0, MODEL, senders, random_updates(SENDERS), watch=watch)


def observe_round(entry: Entry, chain: Chain, transcript: Transcript) -> list[ObservedUpdates]:
    """Return what an observation makes of a round."""
    return observe(entry.create(), chain.transport, transcript, list(range(SENDERS)), LINEAR)


@register_check(Kind.OBSERVATION)
def check_observed_updates(entry: Entry) -> None:
    """Check that updates are finite float32 vectors of participants of the round, behind at least one transport."""
    found = [
        each
        for chain, transcript in transmit_behind_transports(entry)
        for each in observe_round(entry, chain, transcript)
    ]
    require(found, entry, "observes nothing behind any registered transport")
    for each in found:
        known = each.participants and set(each.participants) <= set(range(SENDERS))
        require(known, entry, f"attributes updates to {each.participants}, and must name participants of the round")
        require(each.updates, entry, "returned an observation without updates")
        for update in each.updates:
            require_array(entry, "an update", update, (COLUMNS.count,))
            require_finite(entry, "an update", update)


@register_check(Kind.OBSERVATION)
def check_inputs_unchanged(entry: Entry) -> None:
    """Check that the views of the coalition stay as they are."""
    for chain, transcript in transmit_behind_transports(entry):
        own = {f"update of participant {who}": view.update for who, view in transcript.participants.items()}
        with require_unchanged(entry, **{"server's rows": transcript.server.rows}, **own):
            observe_round(entry, chain, transcript)


@register_check(Kind.OBSERVATION)
def check_determinism(entry: Entry) -> None:
    """Check that the same views give the same bits."""

    def run() -> list[Any]:
        found = [
            each
            for chain, transcript in transmit_behind_transports(entry)
            for each in observe_round(entry, chain, transcript)
        ]
        return [[each.updates, each.participants, each.layer, each.owners] for each in found]

    require_same_bits(entry, run)


@register_check(Kind.OBSERVATION)
def check_declared_metrics(entry: Entry) -> None:
    """Check that every measure of observations gets the metrics that it declares."""
    for cell in _small_cells_of_measures(entry):
        require_declared_metrics(entry, cell.entry, cell.run())


def _small_cells_of_measures(entry: Entry) -> Iterator[SmallCell]:
    """Return the smallest cell of each measure that names an observation, with the first attack that it takes."""
    for measure in registry.entries(Kind.MEASURE):
        if measure.target.observed and (entry.target.rounds == 1 or measure.target.several_rounds):
            yield small_cell(measure, attacks_taken_by(measure)[0], **{measure.target.observed: entry.name})

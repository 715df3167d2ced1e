"""Cells with the fragment exchange."""

import numpy as np
from fflbench.defenses.transports.fragment_exchange.attacker_deviation import ExchangeDeviation

from fflbench import registry
from fflbench.federation import Attack, chain
from fflbench.federation.rounds import Federation
from fflbench.registry import Kind


def create(kind, name, **parameters):
    return registry.get(kind, name).create(**parameters)


def cell(
    attack="none", defense="ffl", seed=0, attack_parameters=None, defense_parameters=None, deviation=None, **fields
):
    """A federation in its first round; `attack` is one, or a name, and `deviation` holds the parameters of one."""
    fields = {"rounds": 3, **fields}
    return Federation(
        create(Kind.TASK, "digits-mlp", **fields),
        attack if isinstance(attack, Attack) else create(Kind.ATTACK, attack, **(attack_parameters or {})),
        chain.defense(defense, **(defense_parameters or {})),
        seed,
        deviation=None if deviation is None else ExchangeDeviation(**deviation),
    )


def transmitted(it):
    """The transcript of a federation's present round, after training and poisoning."""
    selected = it.select()
    updates = it.train(selected)
    it.poison(selected, updates)
    return it.transmit(selected, updates)


def rows_by_sender(view):
    return dict(zip(view.participants.tolist(), view.rows, strict=True))


def mask_by_names(_, round, initiator, acceptor, size):
    """A mask in place of `keystream.random_mask` that is the same with and without keys."""
    return np.random.default_rng([round, initiator, acceptor]).integers(2, size=size, dtype=np.uint8)


def by_name(it, selected, rows):
    """Rows as participants send them: times their number of examples over the mean."""
    factors = (it.defense.setting.sizes[selected] / it.defense.setting.sizes.mean()).astype(np.float32)
    return {int(who): row * factor for who, row, factor in zip(selected, rows, factors, strict=True)}

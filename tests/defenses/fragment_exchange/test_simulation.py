"""`known.simulate` behind an exchange: neither pairs, masks, keys nor the seed of the real round can be had from it."""

from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType

import numpy as np
import pytest
from fflbench.defenses.transports.fragment_exchange.parties import ExchangeServer
from fflbench.defenses.transports.fragment_exchange.transport import FragmentExchange

from fflbench.crypto import keystream
from fflbench.crypto.entropy import Entropy
from fflbench.crypto.rsa_oaep import ServerPrivateKey
from fflbench.federation import Attack
from fflbench.federation.chain import Chain
from tests.defenses.fragment_exchange.cells import cell

SEED = 7_130_524_968
ROUNDS = 12
MASK = keystream.random_mask


@dataclass(kw_only=True)
class Simulates(Attack):
    """Attackers who simulate their own updates, and send them."""

    knows = ("own data", "attackers' updates", "honest updates", "defense")
    times: int = 1

    def poison_updates(self, known):
        for _ in range(self.times):
            assert known.simulate(known.updates) is not None
        return known.updates


def simulating(mode, times=1, deviation=None, **fields):
    attack = Simulates(share=0.3, times=times)
    return cell(attack, seed=SEED, defense_parameters={"mode": mode}, deviation=deviation, **fields)


@pytest.mark.parametrize(
    ("mode", "deviation"),
    [
        ("fast", {"strategy": 2}),
        ("fast", {"strategy": 3, "lone_sender": True}),
        ("fast", {"abort": True}),
        ("full", {"strategy": 3}),
    ],
    ids=str,
)
def test_simulating_changes_nothing_however_attackers_deviate(mode, deviation):
    trying, plain = (simulating(mode, times, deviation) for times in (20, 0))
    for _ in range(3):
        item, unchanged = trying.run_round(), plain.run_round()
        assert (item.pop("simulations"), unchanged.pop("simulations")) == (20, 0)
        assert item == unchanged
    assert trying.weights.tobytes() == plain.weights.tobytes()
    for owner, memory in plain.defense.memory.items():
        for name, array in memory.items():
            assert trying.defense.memory[owner][name].tobytes() == array.tobytes()


@dataclass
class Exchange:
    """The random choices of one round of a transport."""

    transport: FragmentExchange
    round: int
    pairs: dict[tuple[int, int], object] = field(default_factory=dict)
    """Masks by initiator and acceptor."""
    secrets: set[bytes] = field(default_factory=set)


@pytest.fixture
def exchanges(monkeypatch):
    """Every exchange that any transport makes, simulated or not."""
    seen, transmit = [], FragmentExchange.transmit

    def watching(self, upload):
        seen.append(Exchange(self, upload.round))
        return transmit(self, upload)

    def masking(secret, round, initiator, acceptor, size):
        made = MASK(secret, round, initiator, acceptor, size)
        seen[-1].pairs[initiator, acceptor] = made
        seen[-1].secrets.add(bytes(secret))
        return made

    def masking_without_keys(self, round, one, other, size):
        # Simulations derive the masks of a round once, and use them again.
        seen[-1].pairs[one, other] = derive(self, round, one, other, size)
        return seen[-1].pairs[one, other]

    derive = FragmentExchange._mask_without_keys
    monkeypatch.setattr(FragmentExchange, "_mask_without_keys", masking_without_keys)
    monkeypatch.setattr(FragmentExchange, "transmit", watching)
    monkeypatch.setattr(keystream, "random_mask", masking)
    return seen


def by_round(exchanges, it):
    """The simulations and the one real exchange of each round."""
    for round in range(it.round):
        made = [exchange for exchange in exchanges if exchange.round == round]
        (real,) = [exchange for exchange in made if exchange.transport is it.defense.transport]
        yield [exchange for exchange in made if exchange is not real], real


def within_chance(agreeing, size):
    """Whether as many of so many coordinates agree as those of unrelated masks do, but for five deviations."""
    return abs(agreeing - size / 2) < 5 * np.sqrt(size) / 2


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_pairs_and_masks_of_a_simulation_tell_nothing_of_those_of_the_round(exchanges, mode):
    # Reputations would leave out more and more pairs, so that fewer are up to chance.
    it = simulating(mode, times=2, rounds=ROUNDS)
    common = total = 0
    for _ in range(ROUNDS):
        it.defense.transport.memory["local"][:] = 0
        it.run_round()
    for (simulated, again), real in by_round(exchanges, it):
        assert simulated.pairs.keys() == again.pairs.keys()
        pairs, tried = ({frozenset(pair) for pair in each.pairs} for each in (real, simulated))
        assert pairs != tried
        common += len(pairs & tried)
        total += len(pairs)
        assert not real.secrets & simulated.secrets
        for one, other in product(real.pairs.values(), simulated.pairs.values()):
            assert within_chance((one == other).sum(), len(one))
        # Nor does it help to use the simulation's secret for pairs that are known otherwise.
        for secret, ((initiator, acceptor), mask) in product(simulated.secrets, real.pairs.items()):
            derived = MASK(secret, real.round, initiator, acceptor, len(mask))
            assert within_chance((derived == mask).sum(), len(mask))
    # Two random pairings of ten people share each of their pairs with probability 1/9.
    assert total >= 4 * ROUNDS
    assert abs(common - total / 9) < 4 * np.sqrt(total / 9)


def reachable(start):
    """Every object that can be reached from one through attributes, containers, closures and bound arguments."""
    found, waiting = {}, [start]
    while waiting:
        it = waiting.pop()
        if id(it) in found or isinstance(it, type | ModuleType | BuiltinFunctionType):
            continue
        found[id(it)] = it
        waiting.extend(getattr(it, "__dict__", {}).values())
        waiting.extend(getattr(it, name) for name in getattr(type(it), "__slots__", ()) if hasattr(it, name))
        if isinstance(it, dict):
            waiting.extend([*it.keys(), *it.values()])
        elif isinstance(it, list | tuple | set | frozenset):
            waiting.extend(it)
        elif isinstance(it, partial):
            waiting.extend([it.func, it.args, it.keywords])
        elif isinstance(it, MethodType):
            waiting.extend([it.__self__, it.__func__])
        elif isinstance(it, FunctionType):
            waiting.extend([it.__closure__, it.__defaults__, it.__kwdefaults__])
        elif isinstance(it, CellType):
            waiting.append(it.cell_contents)
        elif isinstance(it, np.ndarray) and it.base is not None:
            waiting.append(it.base)
    return list(found.values())


def secrets_of(it, real):
    """Parts of a real chain that are among these objects: its transport, keys, seed, pairing or randomness."""
    seed = real._seed
    return [
        each
        for each in it
        if each is real
        or each is real.transport
        or isinstance(each, ExchangeServer | ServerPrivateKey | np.random.Generator | np.random.BitGenerator)
        or (isinstance(each, Entropy) and each.seed in (None, seed))
        or (isinstance(each, int | np.integer) and each == seed)
        or (isinstance(each, str | bytes) and (str(seed) if isinstance(each, str) else str(seed).encode()) in each)
        or (isinstance(each, dict) and each and each == real.transport.partner)
    ]


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_the_chain_that_attackers_try_leads_to_no_secret_of_the_real_one(monkeypatch, mode):
    twins, simulated = [], Chain.simulation_copy

    def keeping(self, seed):
        twins.append(simulated(self, seed))
        return twins[-1]

    monkeypatch.setattr(Chain, "simulation_copy", keeping)
    it = simulating(mode)
    for round in range(3):
        before = dict(it.defense.transport.partner)
        it.run_round()
        objects = reachable(twins[round])
        assert any(each is twins[round].transport for each in objects)
        assert secrets_of(objects, it.defense) == []
        assert not any(isinstance(each, dict) and each and each == before for each in objects)


@pytest.mark.parametrize("mode", ["fast", "full"])
def test_the_real_chain_leads_to_its_secrets(mode):
    """Otherwise the test above could not find any."""
    it = simulating(mode)
    it.run_round()
    found = {type(each) for each in secrets_of(reachable(partial(lambda held: held, it.defense)), it.defense)}
    assert {Chain, FragmentExchange, Entropy, int, dict} <= found
    assert ({ExchangeServer, ServerPrivateKey} <= found) == (mode == "full")

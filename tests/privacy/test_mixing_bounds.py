"""docs/mixing.md: each of its statements, on the code of the transports and by enumerating small cases."""

import itertools
import math
import re
import tomllib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fflbench import registry
from fflbench.execution.run_cell import run_cell
from fflbench.federation import Columns, Setting
from fflbench.federation.chain import defense
from fflbench.registry import Kind
from fflbench.suites.plan import plan
from fflbench.suites.suite import parse
from tests.docs.compatibility import PAGE
from tests.privacy.observed_rounds import transmit_watched_round

TEXT = (PAGE.parent / "mixing.md").read_text("utf-8")
ROUNDS = st.tuples(st.sampled_from([2, 4, 6]), st.integers(1, 30), st.integers(0, 999))


def section(number):
    return re.split(rf"^## {number}\. .*\n", TEXT, flags=re.MULTILINE)[1].partition("\n## ")[0]


def table(number):
    """Cells of the rows of a section's table."""
    rows = re.findall(r"^\| .* \|$", section(number), re.MULTILINE)[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def random_updates(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def entropy(probabilities):
    return -sum(p * math.log2(p) for p in probabilities if p > 0)


def hidden_bits(secrets, views_of):
    """Return the entropy of a uniform secret given the view; `views_of` lists the equally likely views of a secret."""
    by_view = {}
    for secret in secrets:
        views = views_of(secret)
        for view in views:
            by_view.setdefault(view, Counter())[secret] += 1 / len(views) / len(secrets)
    total = 0.0
    for each in by_view.values():
        weight = sum(each.values())
        total += weight * entropy(value / weight for value in each.values())
    return total


# 1. A pair reveals its sum, and 2. one bit per coordinate


@given(ROUNDS, st.booleans())
def test_partners_rows_have_the_sum_and_all_else_that_is_symmetric_to_the_bit(shape, uneven):
    n, d, seed = shape
    sizes = np.arange(1, n + 1) * 10 if uneven else None
    _, transcript = transmit_watched_round("fragment-exchange", random_updates(n, d, seed), sizes, seed=seed)
    for who, view in transcript.participants.items():
        other = view.extra["partner"]
        one, two = view.update, transcript.participants[other].update
        a, b = transcript.server.rows[[who, other]]
        for symmetric in (np.add, np.maximum, np.minimum, lambda x, y: np.abs(x - y)):
            np.testing.assert_array_equal(symmetric(a, b), symmetric(one, two))


def test_the_difference_is_not_a_function_of_the_sum():
    (one, other), (third, fourth) = (1.0, 3.0), (2.0, 2.0)
    assert one + other == third + fourth
    assert abs(one - other) != abs(third - fourth)


def exchange_views(pair):
    """All views of the exchange of a pair of updates, one for each mask."""
    one, other = pair
    masks = itertools.product([False, True], repeat=len(one))
    swap = [[(b, a) if swapped else (a, b) for a, b, swapped in zip(one, other, mask, strict=True)] for mask in masks]
    return [tuple(columns) for columns in swap]


ALPHABET, LENGTH = range(3), 2
PAIRS = [tuple(pair) for pair in itertools.product(itertools.product(ALPHABET, repeat=LENGTH), repeat=2)]


def test_a_view_is_worth_the_unordered_pairs_of_values():
    likelihoods = {}
    for pair in PAIRS:
        views = exchange_views(pair)
        unordered = tuple(tuple(sorted(column)) for column in zip(*pair, strict=True))
        differing = sum(a != b for a, b in zip(*pair, strict=True))
        found = {view: count / len(views) for view, count in Counter(views).items()}
        assert set(found.values()) == {2.0**-differing}
        assert likelihoods.setdefault(unordered, found) == found
    assert len(likelihoods) == 6**LENGTH


def test_given_the_pair_at_most_one_bit_per_coordinate_is_hidden():
    hidden = hidden_bits(PAIRS, exchange_views)
    differ = sum(a != b for pair in PAIRS for a, b in zip(*pair, strict=True)) / len(PAIRS)
    assert hidden == pytest.approx(differ)
    assert hidden <= LENGTH
    distinct = [pair for pair in PAIRS if all(a != b for a, b in zip(*pair, strict=True))]
    assert hidden_bits(distinct, exchange_views) == pytest.approx(LENGTH)


# 3. Hidden pairs


def pairings(people):
    """All ways to pair people."""
    if not people:
        return [[]]
    first, *rest = people
    return [
        [(first, other), *others] for other in rest for others in pairings([each for each in rest if each != other])
    ]


def double_factorial(n):
    return math.prod(range(1, n, 2))


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_the_number_of_pairings_is_the_double_factorial(n):
    assert len(pairings(list(range(n)))) == double_factorial(n)


def test_hidden_pairs_add_at_most_their_number():
    """Four participants with one coordinate, all pairings and masks."""

    def views_of(updates):
        views = []
        for pairing in pairings(list(range(4))):
            for mask in itertools.product([False, True], repeat=2):
                rows = list(updates)
                for (i, j), swapped in zip(pairing, mask, strict=True):
                    if swapped:
                        rows[i], rows[j] = rows[j], rows[i]
                views.append(tuple(rows))
        return views

    secrets = list(itertools.permutations(range(4)))
    known = 2.0
    hidden = hidden_bits(secrets, views_of)
    assert known < hidden <= known + math.log2(double_factorial(4))


def test_the_table_of_pairs():
    rows = table(3)
    assert [int(row[0]) for row in rows] == [10, 50, 100]
    for n, ways, bits in rows:
        count = double_factorial(int(n))
        assert ways == (f"{count}" if count < 10**6 else f"{count:.1e}")
        assert bits == f"{math.log2(count):.1f}"


def test_a_model_of_the_pages_size_has_as_many_bits_in_a_mask():
    task = registry.get(Kind.TASK, "digits-mlp").create()
    assert f"a model of {task.columns().count:,} weights" in section(3)


# 4. No finite epsilon


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("fragment-exchange", {}),
        ("ideal-shuffle", {"group": 2}),
        ("ideal-shuffle", {"group": 3}),
        ("ideal-shuffle", {"group": "all"}),
    ],
)
def test_a_value_occurs_in_one_world_always_and_in_the_other_never(text, parameters):
    n, d = 6, 5
    for seed in range(30):
        updates = random_updates(n, d, seed)
        for sent, occurs in ((7.0, True), (8.0, False)):
            updates[2, 0] = sent
            _, transcript = transmit_watched_round(text, updates, seed=seed, **parameters)
            assert (7.0 in transcript.server.rows[:, 0]) == occurs


def test_the_table_of_the_two_world_game_is_what_its_suite_gives():
    (suite,) = re.findall(r"```toml\n(.*?)```", section(4), re.DOTALL)
    records = [run_cell(cell, "own") for cell in plan(parse(tomllib.loads(suite), "own", "own"))]
    found = {record.labels["defense"]: record.metrics for record in records}
    rows = table(4)
    assert [row[0] for row in rows] == list(found)
    for name, advantage, interval, epsilon in rows:
        metrics = found[name]
        # Other processors round training otherwise; certainty is the same everywhere.
        drift = 0.0 if advantage == "1.00" else 0.05
        assert float(advantage) == pytest.approx(metrics["advantage"], abs=0.0051 + drift)
        ends = [metrics["advantage_low"], metrics["advantage_high"]]
        assert list(map(float, interval.split(" to "))) == pytest.approx(ends, abs=0.0051 + drift)
        assert float(epsilon) == pytest.approx(metrics["epsilon"], abs=0.0051 + 10 * drift)
    assert f"{found['fedavg']['largest_epsilon']:.2f} is as" in section(4)
    assert f"epsilon of {found['ldp']['proven_epsilon']:.2f} for this round" in section(4)


# 5. Larger groups


@pytest.mark.parametrize("g", [2, 3, 4])
def test_a_group_hides_at_most_the_permutations_of_a_column(g):
    secrets = list(itertools.product(range(g), repeat=g))

    def views_of(values):
        return list(itertools.permutations(values))

    assert hidden_bits(secrets, views_of) < math.log2(math.factorial(g))
    distinct = list(itertools.permutations(range(g)))
    assert hidden_bits(distinct, views_of) == pytest.approx(math.log2(math.factorial(g)))
    of_one = [(values[0], values) for values in distinct]
    by_view = Counter((view, own) for own, values in of_one for view in views_of(values))
    totals = Counter(view for _, values in of_one for view in views_of(values))
    bits = sum(
        totals[each] / totals.total() * entropy(by_view[each, own] / totals[each] for own in range(g))
        for each in totals
    )
    assert bits == pytest.approx(math.log2(g))


def test_a_shuffle_of_rows_that_were_mixed_in_pairs_is_a_shuffle_of_all():
    """Every pairing and mask of four, then every permutation: each order is as likely."""
    orders = Counter()
    for pairing in pairings(list(range(4))):
        for mask in itertools.product([False, True], repeat=2):
            rows = list(range(4))
            for (i, j), swapped in zip(pairing, mask, strict=True):
                if swapped:
                    rows[i], rows[j] = rows[j], rows[i]
            orders.update(itertools.permutations(rows))
    assert len(orders) == 24
    assert len(set(orders.values())) == 1


@pytest.mark.parametrize(("n", "g"), [(4, 2), (6, 2), (6, 3), (8, 4)])
def test_the_number_of_partitions_into_groups(n, g):
    orders = itertools.permutations(range(n))
    found = {frozenset(frozenset(order[first : first + g]) for first in range(0, n, g)) for order in orders}
    assert len(found) == math.factorial(n) // (math.factorial(g) ** (n // g) * math.factorial(n // g))


def test_the_table_of_groups():
    rows = table(5)
    assert [int(row[0]) for row in rows] == [2, 3, 5, 10, 50, 100]
    for g, per_group, per_participant, of_one in rows:
        bits = math.log2(math.factorial(int(g)))
        assert (per_group, per_participant) == (f"{bits:.1f}", f"{bits / int(g):.2f}")
        assert of_one == f"{math.log2(int(g)):.1f}"


# 6. Rules that survive

SURVIVING = [entry.name for entry in registry.entries(Kind.RULE) if entry.coordinatewise]


def test_the_page_names_the_rules_that_survive():
    sentence = section(6).partition("Behind `ideal-shuffle` these are")[2].partition("(")[0]
    assert set(re.findall(r"`([\w-]+)`", sentence)) == set(SURVIVING)


def aggregates(text, updates, seed, **parameters):
    chain = defense(text, **parameters)
    n, d = updates.shape
    chain.begin(Setting(n, n, np.full(n, 5), Columns.of_length(d)), seed)
    return chain.aggregate(chain.transmit(0, np.zeros(d, np.float32), np.arange(n), updates.copy()))


@pytest.mark.parametrize("rule", SURVIVING)
@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("ideal-shuffle", {"group": 2}),
        ("ideal-shuffle", {"group": 3}),
        ("ideal-shuffle", {}),
        ("fragment-exchange", {}),
    ],
)
def test_coordinatewise_rules_do_not_notice_mixing(text, parameters, rule):
    for seed in range(5):
        updates = random_updates(10, 40, seed)
        found, wanted = aggregates(f"{text} + {rule}", updates, seed, **parameters), aggregates(rule, updates, seed)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", sorted({entry.name for entry in registry.entries(Kind.RULE)} - set(SURVIVING)))
def test_all_other_rules_do(rule):
    entry = registry.get(Kind.RULE, rule)
    if entry.root_update:
        pytest.skip("needs an update of the server's own")
    changed = []
    for seed in range(5):
        # Of different lengths, beyond every bound on norms.
        updates = 100 * (random_updates(10, 40, seed) + np.linspace(0, 3, 10, dtype=np.float32)[:, None])
        found = aggregates(f"ideal-shuffle + {rule}", updates, seed)
        changed.append(not np.allclose(found, aggregates(rule, updates, seed), rtol=1e-3, atol=1e-3))
    assert any(changed)

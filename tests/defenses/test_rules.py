"""Each rule against its definition, written slowly and in double precision."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fflbench import aggregate
from fflbench.errors import ParameterError
from fflbench.federation import Columns, View, chain
from tests.strategies import matrices, normal_matrices


def close(found, wanted, updates):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(updates).max(initial=1))


@given(matrices(n=st.integers(1, 12), d=st.integers(0, 40)), st.data())
def test_fedavg_weighs_by_examples(updates, data):
    examples = data.draw(st.lists(st.integers(1, 5000), min_size=len(updates), max_size=len(updates)))
    wanted = [sum(w * float(x) for w, x in zip(examples, column, strict=True)) / sum(examples) for column in updates.T]
    close(aggregate("fedavg", updates, weights=examples), wanted, updates)


@given(matrices(n=st.integers(1, 12), d=st.integers(0, 40)))
def test_median_is_the_middle_value_or_the_mean_of_the_middle_two(updates):
    n = len(updates)
    columns = [sorted(map(float, column)) for column in updates.T]
    wanted = [column[n // 2] if n % 2 else (column[n // 2 - 1] + column[n // 2]) / 2 for column in columns]
    close(aggregate("median", updates), wanted, updates)


@given(matrices(n=st.integers(1, 12), d=st.integers(0, 40)), st.data())
def test_trimmed_mean_drops_f_from_each_side(updates, data):
    f = data.draw(st.integers(0, (len(updates) - 1) // 2))
    columns = updates.astype(np.float64).T
    wanted = [np.mean(sorted(column)[f : len(updates) - f]) for column in columns]
    close(aggregate("trimmed-mean", updates, f=f), wanted, updates)


def krum_scores(updates, f):
    """Blanchard et al., section 4: the sum of squared distances to the n - f - 2 nearest others."""
    rows = [[float(value) for value in row] for row in updates]
    n = len(rows)
    scores = []
    for i in range(n):
        others = sorted(
            math.fsum((a - b) ** 2 for a, b in zip(rows[i], rows[j], strict=True)) for j in range(n) if j != i
        )
        scores.append(math.fsum(others[: n - f - 2]))
    return scores


@given(normal_matrices(n=st.integers(3, 10), d=st.integers(1, 12)), st.data())
def test_multi_krum_averages_the_m_best_by_the_papers_score(updates, data):
    n = len(updates)
    f = data.draw(st.integers(0, n - 3))
    m = data.draw(st.integers(1, n) | st.none())
    scores = krum_scores(updates, f)
    order = sorted(range(n), key=scores.__getitem__)
    taken = n - f if m is None else m
    # Which of two equals is taken is not the definition's business.
    assume(taken == n or scores[order[taken]] - scores[order[taken - 1]] > 1e-9 * max(1.0, *scores))
    wanted = updates[order[:taken]].astype(np.float64).mean(0)
    close(aggregate("multi-krum", updates, f=f, m=m), wanted, updates)


@given(normal_matrices(n=st.integers(3, 10), d=st.integers(1, 12)), st.data())
def test_krum_takes_the_best(updates, data):
    f = data.draw(st.integers(0, len(updates) - 3))
    scores = krum_scores(updates, f)
    best, second = sorted(scores)[:2]
    assume(second - best > 1e-9 * max(1.0, *scores))
    np.testing.assert_array_equal(aggregate("krum", updates, f=f), updates[scores.index(best)])


def foolsgold_weights(histories, kappa):
    """Fung et al., Algorithm 1, line by line."""
    n = len(histories)
    rows = [[float(value) for value in row] for row in histories]

    def cosine(a, b):
        lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
        value = math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0
        return 1.0 if value > 1 - 1e-12 else value

    cs = {(i, j): cosine(rows[i], rows[j]) for i in range(n) for j in range(n) if i != j}
    # The authors' code has zeros on the diagonal, so no maximum is negative.
    v = [max(0.0, *(cs[i, j] for j in range(n) if j != i)) for i in range(n)]
    for i, j in cs:
        if v[j] > v[i]:
            cs[i, j] *= v[i] / v[j]
    alpha = [min(1.0, max(0.0, 1 - max(cs[i, j] for j in range(n) if j != i))) for i in range(n)]
    top = max(alpha)
    if top == 0:
        return [0.0] * n
    weights = []
    for a in alpha:
        a /= top
        logit = math.inf if a == 1 else -math.inf if a == 0 else math.log(a / (1 - a))
        weights.append(min(1.0, max(0.0, kappa * (logit + 0.5))))
    return weights


@given(
    normal_matrices(n=st.integers(2, 8), d=st.integers(2, 12)),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_foolsgold_is_algorithm_1(updates, kappa):
    wanted = foolsgold_weights(updates, kappa)
    assume(sum(wanted) > 1e-3)
    # A cosine that is 1 up to rounding has weight 0 or nearly so: steep there, hence the tolerance.
    close_enough = {"rtol": 1e-3, "atol": 1e-4 * np.abs(updates).max(initial=1)}
    mean = np.average(updates.astype(np.float64), axis=0, weights=wanted)
    np.testing.assert_allclose(aggregate("foolsgold", updates, kappa=kappa), mean, **close_enough)


def test_foolsgold_trusts_whoever_is_opposed_to_everybody():
    alike = np.array([[1, 0.2, 0], [1, -0.2, 0.1]], np.float32)
    updates = np.vstack([alike, -alike.sum(0)])
    weights = foolsgold_weights(updates, 1.0)
    assert weights[2] == 1
    assert max(weights[:2]) == 0
    np.testing.assert_allclose(aggregate("foolsgold", updates), updates[2], atol=1e-6)


@pytest.mark.parametrize("name", ["krum", "multi-krum"])
def test_krum_looks_at_parameters_and_averages_everything(name):
    updates = random_updates(9, 20)
    updates[:, 12:] *= 100
    columns = Columns({}, {}, slice(0, 12), slice(8, 12), 20)
    view = View(0, np.zeros(20), updates, np.ones(9), columns, 9)
    found = chain.defense(name, f=2).rule.aggregate(view, np.random.default_rng(0))
    scores = krum_scores(updates[:, :12], 2)
    chosen = np.argsort(scores)[: 1 if name == "krum" else 7]
    close(found, updates[chosen].astype(np.float64).mean(0), updates)


def test_huge_values_are_averaged_where_their_mean_can_be_written():
    updates = np.full((10, 3), 3.3e38, np.float32)
    for rule in ("median", "trimmed-mean"):
        np.testing.assert_allclose(aggregate(rule, updates), 3.3e38, rtol=1e-6)


def test_foolsgold_silences_two_sybils_and_keeps_the_diverse():
    rng = np.random.default_rng(0)
    honest = rng.normal(size=(5, 1000)).astype(np.float32)
    sybil = 10 * rng.normal(size=1000).astype(np.float32)
    updates = np.vstack([honest, sybil, sybil])
    np.testing.assert_allclose(aggregate("foolsgold", updates), honest.mean(0), atol=1e-5)


RULES = ("fedavg", "median", "trimmed-mean", "krum", "multi-krum", "foolsgold")


def random_updates(n=9, d=500, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


@pytest.mark.parametrize("rule", RULES)
class TestEveryRule:
    def test_is_unchanged_by_reordering_participants(self, rule):
        updates, weights = random_updates(), np.arange(1, 10)
        order = np.random.default_rng(1).permutation(9)
        np.testing.assert_allclose(
            aggregate(rule, updates[order], weights=weights[order]),
            aggregate(rule, updates, weights=weights),
            rtol=1e-5,
            atol=1e-6,
        )

    def test_leaves_its_input_alone(self, rule):
        updates = random_updates()
        before = updates.copy()
        result = aggregate(rule, updates)
        assert not np.shares_memory(result, updates)
        np.testing.assert_array_equal(updates, before)
        updates.flags.writeable = False
        aggregate(rule, updates)

    def test_identical_rows_give_that_row_or_no_answer(self, rule):
        updates = np.tile(random_updates(1), (7, 1))
        if rule == "foolsgold":
            with pytest.raises(ParameterError, match="every participant has weight zero"):
                aggregate(rule, updates)
        else:
            np.testing.assert_allclose(aggregate(rule, updates), updates[0], rtol=1e-6)

    def test_one_participant_is_its_own_aggregate_where_the_rule_is_defined(self, rule):
        updates = random_updates(1)
        if "krum" in rule:
            with pytest.raises(ParameterError, match=r"needs f <= n - 3, but f = 0 and n = 1"):
                aggregate(rule, updates)
        else:
            np.testing.assert_array_equal(aggregate(rule, updates), updates[0])

    @pytest.mark.parametrize("d", [0, 1])
    def test_no_coordinate_or_one_is_as_good_as_many(self, rule, d):
        if (rule, d) == ("foolsgold", 1):
            # On a line everybody points the way somebody else does.
            with pytest.raises(ParameterError, match="every participant has weight zero"):
                aggregate(rule, random_updates(9, d))
            return
        result = aggregate(rule, random_updates(9, d))
        assert result.shape == (d,)
        assert np.isfinite(result).all()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_gives_back_the_type_it_was_given(self, rule, dtype):
        assert aggregate(rule, random_updates(dtype=dtype)).dtype == dtype

    def test_takes_rows_that_are_not_contiguous(self, rule):
        wide = random_updates(9, 1000)
        contiguous = aggregate(rule, wide[:, ::2].copy())
        np.testing.assert_allclose(aggregate(rule, wide[:, ::2]), contiguous, rtol=1e-5, atol=1e-6)

    def test_is_finite_on_huge_values_or_overflows_visibly(self, rule):
        updates = random_updates()
        updates[0] = 1e38
        result = aggregate(rule, updates)
        assert np.isfinite(result).all()
        if rule in ("median", "trimmed-mean", "krum", "multi-krum"):
            assert np.abs(result).max() < 10


def test_foolsgold_on_no_coordinate_at_all_trusts_everybody():
    assert aggregate("foolsgold", np.zeros((3, 0), np.float32)).shape == (0,)

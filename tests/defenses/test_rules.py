"""Each rule against its reference, and each reference against something else."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import trim_mean
from sklearn.neighbors import NearestNeighbors

from fflbench import aggregate
from fflbench.errors import ParameterError
from fflbench.federation import Columns, View, chain
from fflbench.federation.transport import ServerSetting
from fflbench.references.coordinatewise import fedavg, median, trimmed_mean
from fflbench.references.foolsgold import foolsgold, foolsgold_weights
from fflbench.references.krum import krum, krum_scores, multi_krum
from tests.strategies import matrices, normal_matrices


def close(found, wanted, updates):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(updates).max(initial=1))


def assert_among(found, allowed, updates, rtol=1e-5):
    """Assert that an aggregate is one of those that a definition allows."""
    tolerance = rtol * np.abs(updates).max(initial=1)
    assert min(np.abs(found - np.asarray(each)).max(initial=0) for each in allowed) <= tolerance


def ties(n, d):
    """Updates with many ties, whose distances are exact."""
    return matrices(n, d, st.integers(-2, 2).map(float))


# Each rule against its reference


@given(matrices(n=st.integers(1, 12), d=st.integers(0, 40)), st.data())
def test_fedavg_is_its_reference(updates, data):
    examples = data.draw(st.lists(st.integers(1, 5000), min_size=len(updates), max_size=len(updates)))
    close(aggregate("fedavg", updates, weights=examples), fedavg(updates.tolist(), examples)[0], updates)


@given(matrices(n=st.integers(1, 12), d=st.integers(0, 40)))
def test_median_is_its_reference(updates):
    close(aggregate("median", updates), median(updates.tolist())[0], updates)


@given(matrices(n=st.integers(1, 12), d=st.integers(0, 40)), st.data())
def test_trimmed_mean_is_its_reference(updates, data):
    f = data.draw(st.integers(0, (len(updates) - 1) // 2))
    close(aggregate("trimmed-mean", updates, f=f), trimmed_mean(updates.tolist(), f)[0], updates)


@given(normal_matrices(st.integers(3, 10), st.integers(1, 12)) | ties(st.integers(3, 8), st.integers(1, 3)), st.data())
def test_krum_and_multi_krum_are_their_references(updates, data):
    n, rows = len(updates), updates.tolist()
    f = data.draw(st.integers(0, n - 3))
    m = data.draw(st.integers(1, n) | st.none())
    assert_among(aggregate("multi-krum", updates, f=f, m=m), multi_krum(rows, f, m), updates)
    assert_among(aggregate("krum", updates, f=f), krum(rows, f), updates, rtol=0)


@given(normal_matrices(st.integers(2, 8), st.integers(2, 12)), st.sampled_from([0.5, 1.0, 2.0]))
def test_foolsgold_is_its_reference(updates, kappa):
    weights = foolsgold_weights(updates.tolist(), kappa)
    assume(sum(weights) > 1e-3)
    # A cosine that is 1 up to rounding has weight 0 or nearly so: steep there, hence the tolerance.
    assert_among(aggregate("foolsgold", updates, kappa=kappa), foolsgold(updates.tolist(), kappa), updates, rtol=1e-3)


def test_foolsgold_remembers_the_sums_of_everybody_seen_so_far():
    rng, histories = np.random.default_rng(0), {}
    rule = chain.defense("foolsgold").rule
    rule.begin(ServerSetting(6, 4, Columns.of_length(5)))
    for round in range(4):
        participants = np.sort(rng.choice(6, 4, replace=False))
        updates = rng.normal(size=(4, 5)).astype(np.float32) + np.float32(0.2)
        for who, row in zip(participants, updates, strict=True):
            histories[who] = histories.get(who, 0) + row.astype(np.float64)
        seen = sorted(histories)
        weights = dict(zip(seen, foolsgold_weights([histories[who].tolist() for who in seen]), strict=True))
        view = View(round, np.zeros(5), updates, np.ones(4), Columns.of_length(5), 4, participants)
        wanted = fedavg(updates.tolist(), [weights[who] for who in participants])[0]
        np.testing.assert_allclose(rule.aggregate(view, rng), wanted, rtol=1e-4, atol=1e-5)


# The references against other formulations and against work by hand, so that both are not wrong together


@given(normal_matrices(st.integers(1, 12), st.integers(1, 9)), st.data())
def test_references_of_columns_are_those_of_numpy_and_scipy(updates, data):
    n, rows = len(updates), updates.tolist()
    f = data.draw(st.integers(0, (n - 1) // 2))
    weights = data.draw(st.lists(st.integers(1, 99), min_size=n, max_size=n))
    np.testing.assert_allclose(fedavg(rows, weights)[0], np.average(rows, axis=0, weights=weights), atol=1e-9)
    np.testing.assert_allclose(median(rows)[0], np.median(rows, axis=0), atol=1e-9)
    # It drops a share, rounded down.
    np.testing.assert_allclose(trimmed_mean(rows, f)[0], trim_mean(rows, (f + 0.5) / n, axis=0), atol=1e-9)


@given(normal_matrices(st.integers(3, 10), st.integers(1, 12)), st.data())
def test_scores_of_krum_are_distances_to_the_neighbours_that_scikit_learn_finds(updates, data):
    neighbours = data.draw(st.integers(1, len(updates) - 2))
    near = NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(updates.astype(np.float64))
    # Without points to ask about, a row is no neighbour of itself.
    distances, _ = near.kneighbors()
    np.testing.assert_allclose(krum_scores(updates.tolist(), neighbours), (distances**2).sum(1), rtol=1e-6, atol=1e-9)


def test_krum_by_hand():
    """Scores with n - f - 2 = 2 neighbours: 1 + 9, 1 + 4, 4 + 9, 16 + 36, 169 + 289."""
    rows = [[0.0], [1.0], [3.0], [7.0], [20.0]]
    assert krum_scores(rows, 2) == [10, 5, 13, 52, 458]
    assert list(krum(rows, 1)) == [[1]]
    assert list(multi_krum(rows, 1)) == [[(0 + 1 + 3 + 7) / 4]]
    updates = np.array(rows, np.float32)
    assert aggregate("krum", updates, f=1).tolist() == [1]
    assert aggregate("multi-krum", updates, f=1).tolist() == [2.75]
    assert sorted(krum([[0.0], [1.0], [2.0], [50.0], [99.0]], 2)) == [[0], [1], [2]]


def test_foolsgold_by_hand():
    """Cosines 0.8, 0.6 and 0; the third is pardoned: 0.6 * 0.6 / 0.8, so that alpha is 0.2, 0.2 and 0.55."""
    rows = [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]
    assert foolsgold_weights(rows) == [0, 0, 1]
    assert foolsgold_weights(rows, pardon=False) == pytest.approx([0.5, 0.5, 1])
    # alpha is 0.4, 0.4 and 1: ln(2/3) + 1/2 = 0.0945349.
    rows = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]
    assert foolsgold_weights(rows) == pytest.approx([0.0945349, 0.0945349, 1], abs=1e-6)
    wanted = [0.127205, 0.0636025, 0.840994]
    np.testing.assert_allclose(aggregate("foolsgold", np.array(rows, np.float32)), wanted, atol=1e-5)


def test_foolsgold_trusts_whoever_is_opposed_to_everybody():
    alike = np.array([[1, 0.2, 0], [1, -0.2, 0.1]], np.float32)
    updates = np.vstack([alike, -alike.sum(0)])
    weights = foolsgold_weights(updates.tolist())
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
    scores = krum_scores(updates[:, :12].tolist(), 9 - 2 - 2)
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

"""Other libraries beside our definitions: the verdicts of docs/coverage.md are those of `fflbench check`."""

import numpy as np
import pytest

import fflbench
from fflbench.comparison import compare
from fflbench.function_calls import Arguments, ForeignFunction, load_function
from fflbench.references import REFERENCES
from tests.docs.test_coverage import table

byzfl = pytest.importorskip("byzfl")

PAGE_RULES, PAGE_ATTACKS = ({row[0]: row[1:] for row in table("ByzFL 0.0.11", number)[1]} for number in (0, 1))
"""Our name, verdict and differences by ByzFL's name, as on the page."""


MOST_STEPS = 1000
"""Steps after which CAF counts as endless; it takes about five on ordinary matrices."""


class EndlessError(Exception):
    pass


@pytest.fixture(autouse=True)
def _random_numbers_of_byzfl():
    np.random.seed(0)


def caf(vectors, f):
    """ByzFL's CAF, which draws a random vector in each step, with an error where it takes too many."""
    numbers, draw = iter(range(MOST_STEPS)), np.random.randn

    def limited(*shape):
        if next(numbers, None) is None:
            raise EndlessError
        return draw(*shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "randn", limited)
        return byzfl.CAF(f=f)(vectors)


def of_byzfl(name):
    """A rule or pre-aggregation as `fflbench check` calls it."""
    return ForeignFunction("byzfl:CAF", caf, Arguments(("f",))) if name == "CAF" else load_function(f"byzfl:{name}")


# Rules and pre-aggregations


def test_the_page_has_a_verdict_on_every_rule_with_a_definition():
    header, rows = table("Rules and pre-aggregations")
    theirs = {row[header.index("ByzFL")]: row[1] for row in rows if row[1].strip("`") in REFERENCES}
    theirs.pop("", None)
    assert {name: ours for name, (ours, _, _) in PAGE_RULES.items()} == theirs


@pytest.mark.parametrize("name", PAGE_RULES)
def test_the_verdict_on_a_rule_is_that_of_the_comparison(name):
    ours, verdict, differences = PAGE_RULES[name]
    found = compare(of_byzfl(name), REFERENCES[ours.strip("`")])
    ordinary = "agrees except on hostile matrices" if found.agrees_unless_hostile else "differs"
    assert verdict == ("agrees" if found.agrees else ordinary)
    sentences = [each.replace("yours looks like ", "").partition(" it gives ")[0] for each in found.sentences]
    general = [each for each in sentences if not each.startswith("on ")]
    assert differences == "; ".join(general or sentences)


@pytest.mark.parametrize("name", ["Clipping", "ARC"])
def test_clipping_and_arc_change_the_matrix_that_they_are_given(name):
    found = compare(of_byzfl(name), REFERENCES[name.lower()])
    assert "it changes the matrix that it is given" in found.notes


def test_centered_clipping_accepts_no_start():
    with pytest.raises(TypeError, match="m must be of type"):
        byzfl.CenteredClipping(m=np.zeros(4))


@pytest.mark.parametrize("rule", [byzfl.SMEA(f=2), byzfl.CAF(f=2)], ids=["SMEA", "CAF"])
def test_smea_and_caf_give_another_answer_when_called_again(rule):
    updates = np.random.default_rng(0).normal(size=(8, 20))
    assert len({tuple(rule(updates)) for _ in range(5)}) > 1


def test_caf_takes_more_steps_the_longer_an_outlier_is():
    updates = np.random.default_rng(0).normal(size=(8, 5))
    updates[0] = 10_000
    with pytest.raises(EndlessError):
        caf(updates, f=2)
    assert byzfl.CAF(f=0)(updates) is None


# Attacks

HONEST = np.random.default_rng(0).normal(1, [1, 2, 0.5, 3], size=(8, 4)).astype(np.float32)
MEAN = HONEST.mean(0)
F = 3


def ours(name, **parameters):
    """Update of the first attacker."""
    return fflbench.poison(name, HONEST, attackers=F, **parameters)[0]


CASES = {
    "SignFlipping": lambda: (byzfl.SignFlipping(), ours("sign-flipping-mean")),
    "InnerProductManipulation": lambda: (
        byzfl.InnerProductManipulation(tau=0.7),
        ours("inner-product-manipulation", epsilon=0.7),
    ),
    "Inf": lambda: (byzfl.Inf(), ours("non-finite", values="infinity")),
    "Mimic": lambda: (byzfl.Mimic(), ours("mimic")),
    "ALittleIsEnough": lambda: (byzfl.ALittleIsEnough(tau=0.7), ours("a-little-is-enough", z=0.7)),
    "Gaussian": lambda: (byzfl.Gaussian(sigma=0.01), ours("gaussian-noise", sigma=0.01)),
    "Optimal_InnerProductManipulation": lambda: (
        byzfl.Optimal_InnerProductManipulation(agg=byzfl.Average(), pre_agg_list=[], f=F),
        ours("optimal-inner-product", defense="fedavg"),
    ),
    "Optimal_ALittleIsEnough": lambda: (
        byzfl.Optimal_ALittleIsEnough(agg=byzfl.Average(), pre_agg_list=[], f=F),
        ours("optimal-little-is-enough", defense="fedavg"),
    ),
}
"""ByzFL's attack and our update, with the same strength, by ByzFL's name."""


def test_the_page_compares_every_attack_on_updates():
    header, rows = table("Untargeted attacks")
    theirs = {row[header.index("ByzFL")]: row[1] for row in rows} | {"": ""}
    assert {name: named for name, (named, _, _) in PAGE_ATTACKS.items()} == {name: theirs[name] for name in CASES}
    assert set(theirs) - set(CASES) == {"", "NoAttack", "LabelFlipping"}


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_on_an_attack_is_that_on_small_matrices(name):
    attack, sent = CASES[name]()
    same = np.allclose(attack(HONEST.copy()), sent, rtol=1e-5)
    assert PAGE_ATTACKS[name][1] == ("same" if same else "differs")


def test_mimic_copies_the_honest_update_of_an_index():
    sent = ours("mimic")
    copied = int(np.flatnonzero((sent == HONEST).all(1))[0])
    assert copied != 0
    np.testing.assert_array_equal(byzfl.Mimic(epsilon=copied)(HONEST), sent)


@pytest.mark.parametrize("name", ["ALittleIsEnough", "Optimal_ALittleIsEnough"])
def test_a_little_is_enough_goes_the_other_way_by_another_standard_deviation(name):
    attack, sent = CASES[name]()
    degrees = np.sqrt(len(HONEST) / (len(HONEST) - 1))
    np.testing.assert_allclose(attack(HONEST) - MEAN, -(sent - MEAN) * degrees, rtol=1e-4)


def test_a_little_is_enough_has_one_strength_for_all_numbers_of_attackers():
    theirs = byzfl.ALittleIsEnough()(HONEST)
    np.testing.assert_allclose(theirs, MEAN + 1.5 * HONEST.std(0, ddof=1), rtol=1e-5)
    few, many = (fflbench.poison("a-little-is-enough", HONEST, attackers=attackers)[0] for attackers in (2, 5))
    assert np.abs(many - MEAN).min() > np.abs(few - MEAN).max() == pytest.approx(0, abs=1e-6)


def test_gaussian_noise_replaces_the_update_of_byzfl_and_is_added_to_ours():
    assert np.abs(byzfl.Gaussian(sigma=0.01)(HONEST)).max() < 0.1
    np.testing.assert_allclose(ours("gaussian-noise", sigma=0.01), MEAN, atol=0.1)


def test_the_searched_strength_moves_a_trimmed_mean_as_far():
    def moved(row):
        return np.linalg.norm(fflbench.aggregate("trimmed-mean", np.vstack([HONEST, *[row] * F]), f=F) - MEAN)

    search = byzfl.Optimal_InnerProductManipulation(agg=byzfl.TrMean(f=F), pre_agg_list=[], f=F)
    assert moved(ours("optimal-inner-product", defense=fflbench.Aggregator("trimmed-mean", f=F))) == pytest.approx(
        moved(search(HONEST)), rel=0.05
    )

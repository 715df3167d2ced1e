"""The suites of attacks on FFL's reputation: what they hold, and that repairs are tuned on other seeds and examples."""

from fflbench.suites.plan import plan
from fflbench.suites.suite import read

REPAIRS = {"ffl-warmup", "ffl-explore", "ffl-robust", "ffl-repaired"}


def labels(cells, kind):
    return {cell.labels.get(kind, "").partition(" (")[0] for cell in cells}


def test_every_attack_on_reputation_meets_ffl_with_two_shares_of_attackers():
    cells = [cell for cell in plan(read("reputation")) if cell.labels["defense"] == "ffl"]
    attacks = {"noise-control", "on-off", "late", "norm-matched", "long", "sacrificial-outlier", "adaptive-search"}
    assert labels(cells, "attack") == {"none", "non-finite", "sign-flipping"} | attacks
    shares = [(cell.labels["attack"], cell.attack.share) for cell in cells if cell.labels["attack"] != "none"]
    assert {share for _, share in shares} == {0.1, 0.2}
    assert all(label.endswith(f"(share = {share})") for label, share in shares)
    deviations = [cell.deviation for cell in cells if cell.deviation]
    assert {each.strategy for each in deviations} == {1, 2, 3}
    assert any(each.victims for each in deviations)
    assert any(each.strategy == 3 and not each.victims for each in deviations)
    for behaviour in ("lone_sender", "abort", "only_each_other"):
        assert any(getattr(each, behaviour) for each in deviations)


def test_repairs_are_tuned_with_other_seeds_and_without_test_examples():
    evaluated, tuned = plan(read("reputation")), plan(read("reputation-tuning"))
    assert {cell.seed for cell in evaluated} == {0, 1, 2, 3, 4}
    assert {cell.seed for cell in tuned} == {100, 101, 102}
    assert {cell.configuration["task"]["parameters"].get("evaluate_on") for cell in tuned} == {"validation"}
    assert not any("evaluate_on" in cell.configuration["task"]["parameters"] for cell in evaluated)
    assert labels(tuned, "defense") == {"ffl"} | REPAIRS
    assert labels(evaluated, "defense") == {"fedavg", "ffl"} | REPAIRS
    assert labels(tuned, "attack") < labels(evaluated, "attack")


def test_the_reported_repairs_are_among_those_that_were_tuned():
    def configurations(cells):
        return {str(cell.configuration["defense"]) for cell in cells if cell.labels["defense"].startswith("ffl-")}

    assert configurations(plan(read("reputation"))) <= configurations(plan(read("reputation-tuning")))

"""Every check refuses a wrong plugin, in one sentence that says what does not hold."""

import inspect

import pytest

from fflbench import registry
from fflbench.conformance import ConformanceError, NotCheckedError, applicable_checks
from fflbench.conformance.check_registry import all_checks
from fflbench.plugin import rule
from fflbench.registry import Kind
from tests.conformance import wrong_attacks, wrong_measures, wrong_rules, wrong_tasks, wrong_transports  # noqa: F401
from tests.conformance.wrong_plugins import WRONG


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.kind}-{wrong.check}-{wrong.register.__name__}")
def test_a_wrong_plugin_is_refused_in_one_sentence(wrong, tmp_path):
    wrong.register(*[tmp_path] * len(inspect.signature(wrong.register).parameters))
    entry = registry.get(wrong.kind, "wrong")
    (check,) = (each for each in applicable_checks(entry) if each.name == wrong.check)
    with pytest.raises(ConformanceError) as refusal:
        check(entry)
    assert str(refusal.value).replace(str(tmp_path), "FOLDER") == wrong.sentence


def test_every_check_refuses_something():
    assert {(wrong.kind, wrong.check) for wrong in WRONG} == {(kind, check.name) for kind, check in all_checks()}


def test_a_check_says_what_holds():
    for kind, check in all_checks():
        assert check.claim, f"{kind}: {check.name}"
        assert not check.claim.endswith(".")


@pytest.mark.usefixtures("own_registry")
def test_a_plugin_with_a_parameter_that_has_no_default_is_not_checked():
    @rule("wrong", title="Wrong")
    def wrong(updates, bound: float):
        return updates[0]

    entry = registry.get(Kind.RULE, "wrong")
    with pytest.raises(NotCheckedError) as reason:
        applicable_checks(entry)[0](entry)
    assert str(reason.value) == 'rule "wrong" cannot be checked, since its parameter bound has no default'

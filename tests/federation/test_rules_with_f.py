"""Rules that are classes and assume a number of attackers."""

import numpy as np
import pytest

import fflbench
from fflbench import registration, registry
from fflbench.errors import ParameterError
from fflbench.federation.chain import defense
from fflbench.federation.rounds import Federation
from fflbench.federation.rule import Rule, require_rows
from fflbench.registry import Kind


@pytest.fixture(autouse=True)
def trimming(own_registry):
    """The trimmed mean, as a class."""

    @registration.rule("trimming", title="Trimming", tolerates="f < n/2")
    class Trimming(Rule):
        """Average each coordinate after dropping its f largest and f smallest values."""

        f: int

        def aggregate(self, view, rng):
            require_rows(view)
            f = self.f_of(view)
            return np.sort(view.rows, axis=0)[f : len(view.rows) - f].mean(0)


@pytest.mark.parametrize("f", [0, 1, 3, "20%", "12.5%", "bound"])
def test_a_class_gets_the_f_that_a_function_gets(f):
    updates = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    own, builtin = (fflbench.aggregate(name, updates, f=f) for name in ("trimming", "trimmed-mean"))
    np.testing.assert_allclose(own, builtin, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("f", "problem"), [(5, "needs f < n/2"), ("x", "must be a number"), ("attackers", "is known only")]
)
def test_a_class_refuses_an_f_that_it_is_not_defined_for(f, problem):
    with pytest.raises(ParameterError, match=problem):
        fflbench.aggregate("trimming", np.eye(9, dtype=np.float32), f=f)


def test_the_default_of_a_class_is_that_of_functions():
    (parameter,) = registry.get(Kind.RULE, "trimming").parameters
    assert (parameter.name, parameter.default) == ("f", "20%")
    assert "oracle" in parameter.meaning


@pytest.mark.parametrize("f", [0, "attackers", 4])
def test_a_class_has_the_history_and_flags_of_a_function(f):
    runs = []
    for name in ("trimming", "trimmed-mean"):
        task = registry.get(Kind.TASK, "digits-mlp").create(rounds=2)
        run = Federation(task, registry.get(Kind.ATTACK, "gaussian-noise").create(), defense(name, f=f), seed=0)
        run.run()
        flags = [flag.replace("trimming", "trimmed-mean") for flag in run.defense.flags()]
        runs.append(([round["f"] for round in run.history], flags))
    assert runs[0] == runs[1]

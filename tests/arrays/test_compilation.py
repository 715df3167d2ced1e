import numba
import pytest
from numba.core.registry import CPUDispatcher

from fflbench.arrays.compilation import compile_function

SIGNATURE = (numba.int64,)


def double(value):
    return 2 * value


@pytest.mark.parametrize("error", [KeyError("index"), EOFError(), OSError()])
def test_code_is_compiled_without_a_cache_that_is_damaged(error, monkeypatch):
    tried = []
    compile_code = CPUDispatcher.compile

    def compile_or_fail(self, signature):
        # A dispatcher without a cache has one that keeps nothing.
        tried.append(type(self._cache).__name__)
        if tried[-1] != "NullCache":
            raise error
        return compile_code(self, signature)

    monkeypatch.setattr(CPUDispatcher, "compile", compile_or_fail)
    assert compile_function(double, SIGNATURE) is not None
    assert tried == ["FunctionCache", "NullCache"]


def test_what_cannot_be_compiled_is_none(monkeypatch):
    def fail(self, signature):
        raise KeyError("index")

    monkeypatch.setattr(CPUDispatcher, "compile", fail)
    assert compile_function(double, SIGNATURE) is None

import importlib

import pytest

from fflbench import registry
from fflbench.crypto import rsa_oaep
from fflbench.data.cache import is_available
from fflbench.registry import Kind

LIBRARIES = ("sklearn.ensemble", "sklearn.linear_model", "torch.func", "torchmetrics.functional.image")


@pytest.fixture(autouse=True, scope="session")
def loaded():
    """Libraries and data sets, loaded before any check is timed."""
    for library in LIBRARIES:
        importlib.import_module(library)
    for entry in registry.entries(Kind.TASK):
        if entry.target.data_set is None or is_available(entry.target.data_set):
            entry.create().data()


@pytest.fixture(scope="session")
def server_key():
    return rsa_oaep.RSA.generate(rsa_oaep.BITS)


# Of modules, since the patch would reach the tests of other folders that the same process runs.
@pytest.fixture(autouse=True, scope="module")
def one_server_key(server_key):
    """One key of servers for all checks, since making one takes seconds and is tested elsewhere."""
    key = server_key

    class OneKey:
        import_key = staticmethod(rsa_oaep.RSA.import_key)

        @staticmethod
        def generate(bits, randfunc=None):
            return key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rsa_oaep, "RSA", OneKey)
        yield

"""Number of threads of numerical libraries."""

from collections.abc import Iterator
from contextlib import contextmanager

from fflbench.arrays import kernels


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch, BLAS and our kernels to one thread: cells run in parallel, and more could change the last bits."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with kernels.threads(1):
            yield
    finally:
        torch.set_num_threads(before)

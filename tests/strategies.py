"""Strategies of hypothesis: matrices of updates."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


@st.composite
def matrices(draw, n, d, elements=None):
    """Updates: float32, one row per participant."""
    if elements is None:
        elements = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
    return draw(arrays(np.float32, (draw(n), draw(d)), elements=elements))


@st.composite
def normal_matrices(draw, n, d):
    """Updates without ties: normal values from a drawn seed, some rows near each other."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, columns = draw(n), draw(d)
    centre = draw(st.sampled_from([0.0, 1.0, 5.0])) * rng.normal(size=columns)
    return (centre + rng.normal(size=(rows, columns))).astype(np.float32)

"""What hypothesis draws."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays


@st.composite
def matrices(draw, n, d, elements=None):
    """Updates: float32, a row a participant."""
    if elements is None:
        elements = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
    return draw(arrays(np.float32, (draw(n), draw(d)), elements=elements))

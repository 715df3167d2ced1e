"""Fixed-point numbers in a ring of 2^32 or 2^64 elements, in steps so small that a sum of n of them cannot wrap."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from fflbench.plugin import ParameterError, Vector

Words = npt.NDArray[Any]
"""Elements of the ring: unsigned integers of 32 or 64 bits, which wrap."""

FEWEST_STEPS = 128
"""Number of steps between 0 and the bound below which a ring is refused."""


@dataclass(frozen=True)
class FixedPoint:
    r"""Encoding of numbers up to a bound as multiples of 2^-fraction, for sums of n of them.

    $$ e(x) = \operatorname{round}(2^f x) \bmod 2^b, \qquad n (2^f \cdot \text{bound} + 1/2) \le 2^{b-1} - 1 $$
    """

    bits: int
    bound: float
    n: int

    def __post_init__(self) -> None:
        if self.bound * 2.0**self.fraction < FEWEST_STEPS:
            raise ParameterError(f"bits = {self.bits} are too few for sums of {self.n} updates: set bits = 64")

    @property
    def fraction(self) -> int:
        """Binary digits after the point: the most with which no sum wraps."""
        largest = Fraction(2 ** (self.bits - 1) - 1, self.n) - Fraction(1, 2)
        ratio = largest / Fraction(self.bound)
        if ratio <= 0:
            return -self.bits
        digits = math.frexp(float(ratio))[1]
        while ratio < Fraction(2) ** digits:
            digits -= 1
        return digits

    @property
    def step(self) -> float:
        """Distance between two numbers that can be told apart."""
        return 2.0**-self.fraction

    def dtype(self) -> np.dtype[Any]:
        """Return the type of the ring's elements."""
        return np.dtype(np.uint32 if self.bits == 32 else np.uint64)

    def fits(self, values: Vector) -> bool:
        """Return whether all values are finite and within the bound."""
        # Negated comparisons refuse NaN.
        return bool(np.abs(values).max(initial=0) <= self.bound)

    def encode(self, values: Vector, weight: float) -> Words:
        """Return values within the bound, times a weight of 1 at most, as elements of the ring."""
        scaled = values.astype(np.float64)
        scaled *= weight * 2.0**self.fraction
        np.rint(scaled, out=scaled)
        return scaled.astype(np.int64).astype(self.dtype())

    def decode(self, words: Words) -> npt.NDArray[np.float64]:
        """Return the numbers that elements of the ring stand for: the lower half of it is positive."""
        signed = words.view(np.int32 if self.bits == 32 else np.int64)
        return signed.astype(np.float64) * self.step

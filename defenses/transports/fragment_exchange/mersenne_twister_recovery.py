"""Recovery of missing outputs of a Mersenne Twister (Matsumoto and Nishimura, ACM TOMACS 1998).

Outputs are the words x of a recurrence, each tempered by an invertible map:

    x[i + 624] = x[i + 397] ^ twist(upper bit of x[i], lower bits of x[i + 1])

where the twist is invertible too. So any two of the three terms in a line give the third, and with half of many words
known passes over all lines give the rest, as an erasure code is decoded by peeling: nine tenths of 3,000 words, all of
20,000. (Elimination of all bits at once would need fewer words and take minutes instead of milliseconds.)
"""

import numpy as np
import numpy.typing as npt

from fflbench.plugin import keystream

N, M = 624, 397
MATRIX = np.uint32(0x9908B0DF)
UPPER, LOWER = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)

Flags = npt.NDArray[np.bool_]


def recover_outputs(outputs: keystream.Words, known: Flags) -> tuple[keystream.Words, Flags] | None:
    """Return all outputs, and which of them are certain, from known ones; None where no twister gives these."""
    # The words before the first output are unknown, but part of the recurrence.
    words = np.concatenate([np.zeros(N, np.uint32), np.where(known, untemper(outputs), np.uint32(0))])
    upper = np.concatenate([np.zeros(N, bool), known])
    lower = upper.copy()
    before = -1
    while (sure := int(upper.sum() + lower.sum())) > before:
        before = sure
        _solve_unknown_words(words, upper, lower)
    if not _recurrence_holds(words, upper, lower):
        return None
    return temper(words[N:]), (upper & lower)[N:]


def _solve_unknown_words(words: keystream.Words, upper: Flags, lower: Flags) -> None:
    """Solve every line for its unknown word, in place."""
    line = np.arange(len(words) - N)
    whole = upper & lower
    fed = upper[line] & lower[line + 1]
    for wanted, given in ((N, M), (M, N)):
        rows = line[fed & whole[line + given] & ~whole[line + wanted]]
        words[rows + wanted] = words[rows + given] ^ _twist(words[rows] & UPPER | words[rows + 1] & LOWER)
        upper[rows + wanted] = lower[rows + wanted] = True
        whole = upper & lower
    rows = line[whole[line + M] & whole[line + N] & ~fed]
    seed = _untwist(words[rows + M] ^ words[rows + N])
    # One array after the other: neighbouring lines determine the two parts of the same word.
    words[rows] = np.where(upper[rows], words[rows], words[rows] & LOWER | seed & UPPER)
    upper[rows] = True
    words[rows + 1] = np.where(lower[rows + 1], words[rows + 1], words[rows + 1] & UPPER | seed & LOWER)
    lower[rows + 1] = True


def _recurrence_holds(words: keystream.Words, upper: Flags, lower: Flags) -> bool:
    """Return whether all lines without unknown words hold."""
    line = np.arange(len(words) - N)
    whole = upper & lower
    rows = line[upper[line] & lower[line + 1] & whole[line + M] & whole[line + N]]
    fed = words[rows] & UPPER | words[rows + 1] & LOWER
    return bool((words[rows + N] == words[rows + M] ^ _twist(fed)).all())


def _twist(fed: keystream.Words) -> keystream.Words:
    twisted: keystream.Words = fed >> np.uint32(1) ^ (fed & np.uint32(1)) * MATRIX
    return twisted


def _untwist(twisted: keystream.Words) -> keystream.Words:
    # The upper bit comes from the matrix alone, so it shows whether that was added.
    last = twisted >> np.uint32(31)
    fed: keystream.Words = (twisted ^ last * MATRIX) << np.uint32(1) | last
    return fed


def temper(words: keystream.Words) -> keystream.Words:
    """Return the generator's outputs for words of the recurrence."""
    y: keystream.Words = words ^ words >> np.uint32(11)
    y = y ^ y << np.uint32(7) & np.uint32(0x9D2C5680)
    y = y ^ y << np.uint32(15) & np.uint32(0xEFC60000)
    y ^= y >> np.uint32(18)
    return y


def untemper(outputs: keystream.Words) -> keystream.Words:
    """Return the words of the recurrence for outputs, undoing shifts from the end that they leave unchanged."""
    y: keystream.Words = outputs ^ outputs >> np.uint32(18)
    y = y ^ y << np.uint32(15) & np.uint32(0xEFC60000)
    words = y
    for _ in range(4):
        words = y ^ words << np.uint32(7) & np.uint32(0x9D2C5680)
    y = words
    for _ in range(2):
        words = y ^ words >> np.uint32(11)
    return words

"""Ideal shuffle of coordinates within groups, without a protocol: what exchanges of fragments could hide at best.

Fragmented federated learning (Jebreel et al., IEEE TNNLS 2022) swaps coordinates between two; MixNN (Boutet et al.,
Middleware 2022) permutes whole layers over all participants.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import (
    Entropy,
    Indices,
    Matrix,
    ObservedUpdates,
    ParameterError,
    ParticipantView,
    Rows,
    Setting,
    Transcript,
    Transport,
    Upload,
    Vector,
    View,
    compact,
    transport,
)

BLOCK = 1 << 18
"""Values that are permuted at a time, in a copy."""


@transport("ideal-shuffle", title="Ideal shuffle")
class IdealShuffle(Transport):
    r"""Permute every coordinate among the members of random groups, independently and uniformly.

    $$ y_{k,i} = \frac{d_{\pi_i(k)}}{\bar d} x_{\pi_i(k),i}, \qquad
       \pi_i \ \text{uniform over the permutations of the group of}\ k $$

    with $d_k$ the number of examples of participant k and $\bar d$ their public mean, since the server cannot weight
    participants whose coordinates are mixed. Groups are drawn afresh each round; there are $\lfloor n/g \rfloor$ of
    them, and those left over join the others one by one, so that no group is smaller than g. Fewer than g participants
    are one group, and one alone abstains. Each member submits one of its group's rows. A value that is not finite ruins
    the row it ends up in.
    """

    rows: ClassVar[Rows] = "mixture"

    group: Annotated[
        Annotated[int, Ge(2)] | Literal["all"], "participants among whom each coordinate is permuted, or all of a round"
    ] = "all"

    @property
    def simulated_part(self) -> str:
        return "the whole protocol: it is an ideal"

    def validate(self, per_round: int) -> None:
        super().validate(per_round)
        least = 2 if self.group == "all" else self.group
        if per_round < least:
            raise ParameterError(f"a shuffle among {least} needs as many participants, and per_round = {per_round}")

    def begin(self, setting: Setting, entropy: Entropy) -> None:
        super().begin(setting, entropy)
        self.reference = float(setting.sizes.mean())

    def transmit(self, upload: Upload) -> Transcript:
        rows, who = upload.rows, upload.participants
        self._scale(rows, who)
        transcript = self.submitted(upload)
        if len(who) < 2:
            rows = compact(rows, np.zeros(len(who), bool))
            who = who[:0]
        for number, places in enumerate(self._groups(upload.round, len(who))):
            permute_columns(rows, places, self.entropy.generator("shuffle", upload.round, number))
        view = replace(
            transcript.server, rows=rows, weights=np.ones(len(who)), participants=who, sizes=self.setting.sizes[who]
        ).without_non_finite()
        assert view.sizes is not None
        # Turns the mean of scaled rows into a mean by examples.
        scale = len(view.sizes) * self.reference / float(view.sizes.sum()) if len(view.sizes) else 1.0
        transcript.server = replace(view, scale=scale)
        return transcript

    @classmethod
    def collude(cls, view: View, who: int, own: ParticipantView, people: Sequence[int]) -> list[ObservedUpdates]:
        """Return the mean update of the others: without the colluding participant's values, in unknown order."""
        others = [other for other in people if other != who]
        if who > min(others, default=who) or len(view.rows) < len(people):
            return []
        assert view.sizes is not None
        examples = float(view.sizes.sum())
        reference = view.scale * examples / len(view.rows)
        rest = (view.rows.sum(0, dtype=np.float64) - own.update) * reference / (examples - own.size)
        return [ObservedUpdates((rest.astype(np.float32),), tuple(others))]

    def expected_rows(self, who: Indices, updates: Matrix, model: Vector) -> Matrix:
        """Return updates scaled by their numbers of examples."""
        scaled = updates.copy()
        self._scale(scaled, who)
        return scaled

    def _scale(self, rows: Matrix, who: Indices) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            rows *= (self.setting.sizes[who] / self.reference).astype(np.float32)[:, None]

    def _groups(self, round: int, n: int) -> list[npt.NDArray[np.int64]]:
        """Return the places of each group's members, in a random partition."""
        order = self.entropy.generator("groups", round).permutation(n)
        count = 1 if self.group == "all" else max(1, n // self.group)
        return np.array_split(order, count) if n else []


def permute_columns(rows: Matrix, places: npt.NDArray[np.int64], rng: np.random.Generator) -> None:
    """Permute each column among some rows, in place, by permutations that are independent and uniform."""
    width = max(1, BLOCK // len(places))
    for start in range(0, rows.shape[1], width):
        # One column after the other in memory, each of which is permuted whole.
        columns = rows[places, start : start + width].T.copy()
        rng.permuted(columns, axis=1, out=columns)
        rows[places, start : start + width] = columns.T

"""Split and mix: sums of additive shares in place of fragments.

The repair of fragment exchange by additive shares, after the protocol of Ishai, Kushilevitz, Ostrovsky, Sahai,
Cryptography from anonymity, FOCS 2006, and its analyses by Balle, Bell, Gascon, Nissim, Private summation in the
multi-message shuffle model, CCS 2020, and Ghazi, Manurangsi, Pagh, Velingker, Eurocrypt 2020. There the server sees all
shares in random order. Here those who receive shares add them up (Benaloh, Secret sharing homomorphisms, CRYPTO 1986),
so that the server sees one sum from each participant and needs no anonymous channel: docs/split-and-mix.md has both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from fflbench.plugin import (
    DIFFIE_HELLMAN_GROUPS,
    Deviation,
    Indices,
    Message,
    ObservedUpdates,
    ParameterError,
    ParticipantView,
    ProtocolError,
    Rows,
    Transcript,
    Transport,
    Upload,
    View,
    transport,
)

from .fixed_point import FixedPoint, Words
from .parties import ShareHolder, add_sums, list_keys
from .share_counts import log2_of_exposure, shares_of_sums

M = TypeVar("M", bound=Message)

COARSE = 2.0**-16
"""Step of the encoding above which results carry a warning."""


@dataclass(frozen=True, kw_only=True)
class DropOuts(Deviation):
    """Participants who send their shares and vanish before they submit the sum of those that they received."""

    share: Annotated[float, Ge(0), Le(1), "share of a round's participants who vanish"] = 0.0

    @property
    def needs_attackers(self) -> bool:
        return False


@transport("split-and-mix", title="Split and mix")
class SplitAndMix(Transport):
    r"""Split each update into additive shares over random others, and let the server see sums of shares.

    $$ e_i = \operatorname{round}(2^f \tfrac{d_i}{d_{\max}} x_i) = \sum_j s_{ij}, \qquad y_j = \sum_i s_{ij}, \qquad
       \sum_j y_j = \sum_i e_i \pmod{2^b} $$

    In a random cyclic order, participant i keeps one share and gives one to each of the m - 1 after it, all but one of
    them uniformly random. The y_j are then uniformly random but for their sum, which is all that the server learns,
    also together with `colluding` of the participants but for a chance of 2^-sigma. No update can be judged, so only
    the mean is left as a rule. A participant whose update is not finite or beyond `bound` abstains, since its encoding
    could wrap; an attacker's is cut off there. A share or a sum that is lost makes the round void.
    """

    rows: ClassVar[Rows] = "sum"
    deviation: ClassVar[type[Deviation] | None] = DropOuts

    mode: Annotated[
        Literal["fast", "full"], "add encoded updates up without shares, which cancel, or send every share for real"
    ] = "fast"
    shares: Annotated[
        Annotated[int, Ge(2), Le(10**6)] | None, "m, the kept one included; none: as many as colluding and sigma need"
    ] = None
    colluding: Annotated[float, Ge(0), Lt(1), "share of participants who may pool their views with the server"] = 0.5
    sigma: Annotated[float, Gt(0), Le(1000), "the chance that they learn more than the sum is 2^-sigma at most"] = 40.0
    bits: Annotated[Literal[32, 64], "b, bits of the ring's elements"] = 32
    bound: Annotated[float, Gt(0), Le(1e30), "largest absolute value that an update may have"] = 8.0
    group: Annotated[Literal["ffdhe2048", "rfc5114"], "where two participants agree on a secret"] = "ffdhe2048"

    @property
    def simulated_part(self) -> str:
        return "" if self.mode == "full" else 'keys, shares and messages (set mode = "full")'

    def validate(self, per_round: int) -> None:
        super().validate(per_round)
        if self.shares is not None and self.shares > per_round:
            raise ParameterError(f"shares = {self.shares} go to as many participants: per_round = {per_round} is less")
        self.encoding(per_round)

    def encoding(self, n: int) -> FixedPoint:
        """Return the encoding in which sums of n updates cannot wrap."""
        return FixedPoint(self.bits, self.bound, n)

    def share_count(self, n: int) -> int:
        """Return the number of shares of each of n participants, the one that it keeps included."""
        wanted = shares_of_sums(n, self._colluders(n), self.sigma) if self.shares is None else self.shares
        return min(wanted, n)

    def transmit(self, upload: Upload) -> Transcript:
        transcript = Transcript(upload.round)
        self.watched(transcript, upload)
        encoding = self.encoding(max(self.setting.per_round, len(upload.rows)))
        ready = self._places_of_those_in_range(upload, encoding)
        refused = np.setdiff1d(np.arange(len(upload.rows)), ready)
        deviation = upload.deviation or DropOuts()
        vanished = self._drop_out(upload.round, ready, deviation.share)
        transcript.facts |= {
            "abstained": upload.participants[refused].tolist(),
            "dropped_out": upload.participants[vanished].tolist(),
            "void_because": "",
        }
        exchange = self._exchange_shares if self.mode == "full" else self._add_without_shares
        total = np.zeros(upload.rows.shape[1], encoding.dtype())
        try:
            extra = exchange(transcript, upload, ready, vanished, encoding, total)
            transcript.views["server"] = self._server_view(upload, ready, encoding, total, extra)
        except ProtocolError as error:
            transcript.facts["void_because"] = str(error)
            transcript.views["server"] = self._server_view(upload, ready, encoding, None, {})
        return transcript

    @classmethod
    def collude(cls, view: View, who: int, own: ParticipantView, people: Sequence[int]) -> list[ObservedUpdates]:
        """Return the mean of the others: shares that a participant receives are random, and reveal nothing more."""
        present = [other for other in people if other not in view.dropped]
        return super().collude(view, who, own, present) if who in present and len(present) > 1 else []

    def flags(self) -> list[str]:
        n = self.setting.per_round
        flags = ["attackers are taken to keep to the bound, which nothing forces them to do"]
        if (step := self.encoding(n).step) > COARSE:
            flags.append(f"updates are rounded to multiples of {step:g}: set bits = 64 or a smaller bound")
        if log2_of_exposure(n, self._colluders(n), self.share_count(n)) > -self.sigma:
            flags.append(f"with {self.share_count(n)} shares, coalitions may learn more than the sum")
        return flags

    def summary(self, history: Sequence[Mapping[str, Any]], attackers: Indices) -> dict[str, Any]:
        n = self.setting.per_round
        exposure = log2_of_exposure(n, self._colluders(n), self.share_count(n))
        return {
            "shares": self.share_count(n),
            "colluders": self._colluders(n),
            # None: nothing but the sum is revealed, whatever the order.
            "log2_of_exposure": exposure if math.isfinite(exposure) else None,
            "step": self.encoding(n).step,
            "abstentions": sum(len(item["abstained"]) for item in history),
            "void_rounds": sum(bool(item["void_because"]) for item in history),
        }

    def _colluders(self, n: int) -> int:
        return math.floor(self.colluding * n)

    def _places_of_those_in_range(self, upload: Upload, encoding: FixedPoint) -> Indices:
        """Return the places of those whose updates can be encoded; attackers' finite ones are cut off at the bound."""
        for place in np.flatnonzero(upload.attackers):
            row = upload.rows[place]
            if np.isfinite(row).all():
                np.clip(row, -self.bound, self.bound, out=row)
        return np.flatnonzero([encoding.fits(row) for row in upload.rows])

    def _weights(self, who: Indices) -> Any:
        """Return participants' numbers of examples over the largest, so that a weighted update keeps to the bound."""
        return self.setting.sizes[who] / max(int(self.setting.sizes.max(initial=1)), 1)

    def _drop_out(self, round: int, ready: Indices, share: float) -> Indices:
        count = math.floor(share * len(ready) + 0.5)
        return np.sort(self.entropy.generator("drop-outs", round).permutation(ready)[:count])

    def _add_without_shares(
        self,
        transcript: Transcript,
        upload: Upload,
        ready: Indices,
        vanished: Indices,
        encoding: FixedPoint,
        total: Words,
    ) -> dict[str, Any]:
        """Add up encoded updates: every share is subtracted from one sum and added to another."""
        if len(vanished):
            raise ProtocolError(f"no sum of shares from participant {upload.participants[vanished[0]]}")
        for place, weight in zip(ready, self._weights(upload.participants[ready]), strict=True):
            total += encoding.encode(upload.rows[place], weight)
        return {}

    def _exchange_shares(
        self,
        transcript: Transcript,
        upload: Upload,
        ready: Indices,
        vanished: Indices,
        encoding: FixedPoint,
        total: Words,
    ) -> dict[str, Any]:
        """Send all messages, add the submitted sums up, and return them as the server sees them."""
        holders = self._holders(transcript, upload, ready, encoding)
        keys = {who: self._send(transcript, holder.announce_key()).key for who, holder in holders.items()}
        for who, holder in holders.items():
            sent = self._send(transcript, list_keys(upload.round, who, holder.others, keys))
            with transcript.timed("participants"):
                holder.accept_keys(sent)
        for holder in holders.values():
            for receiver in holder.receivers:
                with transcript.timed("participants"):
                    holders[receiver].accept_share(self._send(transcript, holder.make_share(receiver)))
        present = np.setdiff1d(ready, vanished)
        submissions = [
            self._send(transcript, holders[int(who)].submission()) for who in upload.participants[present].tolist()
        ]
        for who in transcript.participants.keys() & holders.keys():
            view = transcript.participants[who]
            transcript.views[who] = replace(view, received=tuple(holders[who].received))
        with transcript.timed("server"):
            add_sums(submissions, list(holders), total)
        extra: dict[str, Any] = {}
        if upload.watch:
            # Copies, kept for observers only: a second matrix may not fit.
            extra["sums of shares"] = {
                each.sender: np.frombuffer(bytes(each.total), total.dtype) for each in submissions
            }
        # Callers may hand rows in again, and the bits of shares are no numbers.
        upload.rows[ready] = 0
        return extra

    def _holders(
        self, transcript: Transcript, upload: Upload, ready: Indices, encoding: FixedPoint
    ) -> dict[int, ShareHolder]:
        """Return the participants by name, each with its encoded update, in the round's random order."""
        order = self.entropy.generator("order of shares", upload.round).permutation(ready)
        names = upload.participants[order].tolist()
        given = range(1, self.share_count(len(ready)))
        weights, holders = self._weights(upload.participants[order]), {}
        for place, (who, weight) in enumerate(zip(names, weights, strict=True)):
            with transcript.timed("participants"):
                words = encoding.encode(upload.rows[order[place]], weight)
            if words.itemsize == upload.rows.itemsize:
                # In place of the update, which is not needed again: a second matrix may not fit.
                upload.rows[order[place]].view(words.dtype)[:] = words
                words = upload.rows[order[place]].view(words.dtype)
            holders[who] = ShareHolder(
                words,
                who,
                receivers=[names[(place + step) % len(names)] for step in given],
                senders=[names[place - step] for step in given],
                round=upload.round,
                entropy=self.entropy,
                group=DIFFIE_HELLMAN_GROUPS[self.group],
                keep=who in upload.watch,
            )
        return holders

    def _send(self, transcript: Transcript, message: M, /) -> M:
        """Enter a message into the ledger, as it is sent."""
        transcript.ledger.add(message)
        return message

    def _server_view(
        self, upload: Upload, ready: Indices, encoding: FixedPoint, total: Words | None, extra: Mapping[str, Any]
    ) -> View:
        who = upload.participants[ready]
        weights = self._weights(who)
        examples = self.setting.sizes[who].sum(keepdims=True)
        rows = np.empty((0, upload.rows.shape[1]), np.float32)
        if total is not None and len(who):
            rows = (encoding.decode(total) / weights.sum()).astype(np.float32)[None]
        return View(
            round=upload.round,
            model=upload.model,
            rows=rows,
            weights=examples[: len(rows)],
            columns=self.setting.columns,
            selected=len(upload.participants),
            sizes=examples[: len(rows)],
            dropped=np.setdiff1d(upload.participants, who),
            extra=extra,
        )

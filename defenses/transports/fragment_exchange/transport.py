"""Fragment exchange. Jebreel et al., Enhanced security and privacy via fragmented federated learning, IEEE TNNLS 2022.

The half of that paper that hides updates: participants pair up and swap random coordinates of their updates before the
server sees them. A rule then aggregates the mixed updates.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from fflbench.plugin import (
    DIFFIE_HELLMAN_GROUPS,
    SERVER,
    Deviation,
    Entropy,
    Feedback,
    FeedbackMessage,
    Indices,
    Matrix,
    Message,
    ObservedUpdates,
    ParameterError,
    ParticipantView,
    ProtocolError,
    Rows,
    Setting,
    Transcript,
    Transport,
    Upload,
    Vector,
    View,
    compact,
    finite_rows,
    keystream,
    transport,
)

from .attacker_deviation import ExchangeDeviation, attack_victims_only
from .messages import ExchangeSubmission
from .parties import Acceptor, ExchangeServer, Initiator, exchange_fragments, swap_coordinates_in_place
from .round_facts_summary import SIDES, summarise_rounds

M = TypeVar("M", bound=Message)
Flags = npt.NDArray[np.bool_]
PartnerDecisions = Counter[tuple[str, bool]]
"""Number of decisions of honest participants by their candidate's side and by whether they accept the candidate."""

KeptMasks = dict[tuple[Entropy, int, int, int], keystream.Mask]
"""Masks by entropy, round and pair."""

KEPT = 2**17
"""Length of a model up to which masks are kept for further simulations of the same round."""
MOST_KEPT = 256
"""Masks that are kept, at most."""


@transport("fragment-exchange", title="Fragment exchange", version=2)
class FragmentExchange(Transport):
    """Pair participants at random, and let the server see mixed updates only.

    A participant scales its update by its number of examples over their public mean, since the server cannot weight
    participants whose coordinates are mixed. It exchanges only with those of sufficient local reputation, which
    feedback updates. A participant without a partner abstains.
    """

    rows: ClassVar[Rows] = "mixture"
    deviation: ClassVar[type[Deviation] | None] = ExchangeDeviation
    multiple: ClassVar[int] = 2

    mode: Annotated[
        Literal["fast", "full"], "swap the same coordinates without keys, or send and open every message for real"
    ] = "fast"
    group: Annotated[Literal["ffdhe2048", "rfc5114"], "where partners agree on a secret; the second is the paper's"] = (
        "ffdhe2048"
    )
    weighting: Annotated[
        Literal["examples", "equal"],
        "scale each change by its sender's number of examples, or let everyone count alike",
    ] = "examples"
    acceptance: Annotated[
        Literal["settled", "literal"], "ask whoever is at the first quartile or above, or strictly above it"
    ] = "settled"
    normalise: Annotated[
        Literal["trust", "literal"], "scale changes, or whole models, as line 18 of the paper's Protocol 1 needs"
    ] = "trust"
    warmup: Annotated[int, Ge(0), "first rounds in which everybody accepts everybody"] = 0

    @property
    def simulated_part(self) -> str:
        return "" if self.mode == "full" else 'keys, pads and messages (set mode = "full")'

    def validate(self, per_round: int) -> None:
        super().validate(per_round)
        if per_round < 2:
            raise ParameterError(f"an exchange takes two: per_round = {per_round} leaves nobody to exchange with")

    def begin(self, setting: Setting, entropy: Entropy) -> None:
        super().begin(setting, entropy)
        self.memory["local"] = np.zeros((setting.participants, setting.participants))
        self.reference = float(self.participant_weights(np.arange(setting.participants)).mean())
        self.server = ExchangeServer(entropy) if self.mode == "full" else None
        self.partner: dict[int, int] = {}
        self._kept_masks: KeptMasks | None = None
        self._simulated_masks: KeptMasks = {}

    def simulation_copy(self, entropy: Entropy) -> Self:
        twin = super().simulation_copy(entropy)
        # All simulations of a round have the same entropy, and so the same masks; none of them is one of the round.
        twin._kept_masks = self._simulated_masks
        return twin

    def transmit(self, upload: Upload) -> Transcript:
        deviation = upload.deviation or ExchangeDeviation()
        selected, attackers, transcript = upload.participants, upload.attackers, Transcript(upload.round)
        decisions: PartnerDecisions = Counter()
        pairs = self._pair_participants(upload.round, selected, attackers, deviation, decisions)
        transcript.facts["partner_decisions"] = {
            side: {"accepted": decisions[side, True], "refused": decisions[side, False]} for side in SIDES
        }
        paired = np.zeros(len(selected), bool)
        paired[np.array(pairs, int).ravel()] = True
        lone = attackers & ~paired if deviation.lone_sender else np.zeros(len(selected), bool)
        attacking = attackers
        if deviation.victims is not None:
            attacking, transcript.facts["attacked_victims"] = attack_victims_only(upload, pairs, deviation.victims)
        whole = self._unmixed_rows(upload, lone, attacking & paired, deviation)
        # Scaled and mixed in place: what was handed in is not needed again, and another matrix may not fit.
        rows = self._scale_by_examples(upload.rows, selected, upload.model)
        self.watched(transcript, upload)
        finite = finite_rows(rows)
        transcript.facts["faults"] = []
        arrived = np.zeros(len(selected), bool)
        for pair in pairs:
            if deviation.abort and attackers[list(pair)].sum() == 1:
                transcript.facts["faults"].append("between partners: broken off")
                continue
            exchange = self._exchange_messages if self.mode == "full" else self._swap_without_messages
            arrived[list(pair)] = exchange(transcript, selected, rows, pair, whole)
        for place in np.flatnonzero(lone).tolist():
            arrived[place] = self._submit_unmixed(transcript, int(selected[place]), whole[place], rows[place])
        self._record_round(transcript, selected, pairs, lone, arrived, finite, rows)
        transcript.views["server"] = self._server_view(
            upload, rows, arrived, all_finite=bool(finite.all()) and not whole
        )
        return transcript

    def deliver(self, transcript: Transcript, feedback: Feedback) -> None:
        """Update participants' local reputations of this round's partners by the feedback they receive."""
        for who, value in feedback.items():
            message = FeedbackMessage.of(transcript.round, who, value)
            try:
                if self.mode == "full":
                    message = FeedbackMessage.from_bytes(self._record_in_ledger(transcript, message).to_bytes())
                if message.round != transcript.round:
                    raise ProtocolError("feedback of another round")
                difference = message.value
            except ProtocolError as error:
                transcript.facts["faults"].append(f"in feedback: {error}")
                continue
            partner = self.partner.get(message.receiver)
            if partner is not None:
                self.memory["local"][message.receiver, partner] += difference
        if self.mode == "full":
            transcript.facts["bytes"] = transcript.ledger.by_kind()

    @classmethod
    def collude(cls, view: View, who: int, own: ParticipantView, people: Sequence[int]) -> list[ObservedUpdates]:
        """Return the partner's update; where both of a pair collude, only for the first."""
        assert view.participants is not None
        sent: dict[int, Vector] = dict(zip(view.participants.tolist(), view.rows, strict=True))
        partner = own.extra.get("partner", who)
        if partner <= who or who not in sent or partner not in sent:
            return []
        # Coordinates that are not its own came from its partner, which has its own in their place.
        kept: Flags = sent[who].view(np.uint32) == own.update.view(np.uint32)
        exposed: Vector = np.where(kept, sent[partner], sent[who])
        return [ObservedUpdates((exposed,), (partner,))]

    def expected_rows(self, who: Indices, updates: Matrix, model: Vector) -> Matrix:
        return self._scale_by_examples(updates.copy(), who, model)

    def summary(self, history: Sequence[Mapping[str, Any]], attackers: Indices) -> dict[str, Any]:
        return summarise_rounds(history, attackers, self.setting.participants)

    def participant_weights(self, who: Indices) -> npt.NDArray[np.float64]:
        """Return the weight of each participant, in examples."""
        return self.setting.sizes[who].astype(np.float64) if self.weighting == "examples" else np.ones(len(who))

    def acceptable_partners(self, round: int, selected: Indices, *, initiates: bool) -> npt.NDArray[np.bool_]:
        """Return whether each of the selected (rows) exchanges with each (columns); `initiates` says who asks.

        The other must be at or above the first quartile of one's own local reputations, own entry left out.
        """
        if round < self.warmup:
            return np.ones((len(selected), len(selected)), bool)
        local = self.memory["local"][selected]
        others = np.arange(local.shape[1]) != selected[:, None]
        quartiles = np.quantile(local[others].reshape(len(selected), local.shape[1] - 1), 0.25, axis=1)[:, None]
        candidates = local[:, selected]
        strictly = initiates and self.acceptance == "literal"
        accepted: npt.NDArray[np.bool_] = candidates > quartiles if strictly else candidates >= quartiles
        return accepted

    def _unmixed_rows(
        self, upload: Upload, lone: Flags, exchanging: Flags, deviation: ExchangeDeviation
    ) -> dict[int, Vector]:
        """Return the rows, by place, of those who submit their own update unmixed, whether or not they exchanged."""
        own = np.flatnonzero(lone | exchanging & (deviation.strategy != 1))
        who, rows = upload.participants[own], upload.rows[own]
        if deviation.strategy == 3 and len(own):
            assert upload.clean is not None
            rows = upload.clean(who).copy()
        return dict(zip(own.tolist(), self._scale_by_examples(rows, who, upload.model), strict=True))

    def _server_view(self, upload: Upload, rows: Matrix, arrived: Flags, all_finite: bool) -> View:
        who = upload.participants[arrived]
        view = View(
            round=upload.round,
            model=upload.model,
            rows=rows if arrived.all() else compact(rows, arrived),
            weights=np.ones(len(who)),
            columns=self.setting.columns,
            selected=len(upload.participants),
            participants=who,
            sizes=self.setting.sizes[who],
        )
        if not all_finite:
            view = view.without_non_finite()
        assert view.participants is not None
        counts = self.participant_weights(view.participants)
        # Turns the mean of scaled rows into a mean by examples over the participants whose rows arrived.
        return replace(view, scale=len(counts) * self.reference / float(counts.sum()) if len(counts) else 1.0)

    def _record_round(
        self,
        transcript: Transcript,
        selected: Indices,
        pairs: list[tuple[int, int]],
        lone: Flags,
        arrived: Flags,
        finite: Flags,
        rows: Matrix,
    ) -> None:
        """Add facts about the round to the transcript, and the partners of watched participants to their views."""
        both_ways = [*pairs, *((other, one) for one, other in pairs)]
        self.partner = {int(selected[one]): int(selected[other]) for one, other in both_ways}
        for who, view in transcript.participants.items():
            if who in self.partner:
                transcript.views[who] = ParticipantView(
                    view.update, view.size, view.received, {**view.extra, "partner": self.partner[who]}
                )
        planted = [one for one, other in both_ways if arrived[one] and finite[one] and not finite[other]]
        transcript.facts |= {
            "abstained": [int(who) for who in selected[~lone] if int(who) not in self.partner],
            "lone": selected[lone].tolist(),
            "framed": sorted(int(selected[one]) for one in planted if not np.isfinite(rows[one]).all()),
        }

    def _scale_by_examples(self, rows: Matrix, who: Indices, model: Vector) -> Matrix:
        factors = self.participant_weights(who) / self.reference
        with np.errstate(over="ignore", invalid="ignore"):
            rows *= factors.astype(np.float32)[:, None]
            if self.normalise == "literal":
                # d_k / d_ref times the local model minus the global one; row by row, since a second matrix may not fit.
                for row, factor in zip(rows, factors, strict=True):
                    row += np.float32(factor - 1) * model
        return rows

    def _pair_participants(
        self,
        round: int,
        selected: Indices,
        attackers: Flags,
        deviation: ExchangeDeviation,
        decisions: PartnerDecisions,
    ) -> list[tuple[int, int]]:
        """Return pairs: in random order, each free participant asks random free others until one agrees."""
        asking, asked = (self.acceptable_partners(round, selected, initiates=first) for first in (True, False))

        def accepts(participant: int, partner: int, *, initiates: bool) -> bool:
            if attackers[participant]:
                return True
            accepted = bool((asking if initiates else asked)[participant, partner])
            decisions[SIDES[int(attackers[partner])], accepted] += 1
            return accepted

        rng = self.entropy.generator("pairing", round)
        free = set(range(len(selected)))
        pairs = []
        for one in rng.permutation(len(selected)):
            if one not in free:
                continue
            others = rng.permutation(sorted(free - {one}))
            if attackers[one] and deviation.victims is not None:
                others = others[np.argsort(selected[others] >= deviation.victims, kind="stable")]
            for other in others:
                if deviation.rules_out_exchange(attackers[one], attackers[other]):
                    continue
                willing, agreed = accepts(one, other, initiates=True), accepts(other, one, initiates=False)
                if willing and agreed:
                    pairs.append((int(one), int(other)))
                    free -= {one, other}
                    break
        return pairs

    def _swap_without_messages(
        self, transcript: Transcript, selected: Indices, rows: Matrix, pair: tuple[int, int], whole: dict[int, Vector]
    ) -> tuple[bool, bool]:
        """Exchange without keys, pads or messages: the same coordinates are swapped."""
        one, other = pair
        mask = self._mask_without_keys(transcript.round, int(selected[one]), int(selected[other]), rows.shape[1])
        swap_coordinates_in_place(rows[one], rows[other], mask)
        for place in set(pair).intersection(whole):
            rows[place] = whole[place]
        return True, True

    def _mask_without_keys(self, round: int, one: int, other: int, size: int) -> keystream.Mask:
        """Return a pair's mask; simulations keep those of small models for the next ones of the round."""
        name, kept = (self.entropy, round, one, other), self._kept_masks
        if kept is not None and name in kept:
            return kept[name]
        mask = keystream.random_mask(self.entropy.derive_secret("fast mask"), round, one, other, size)
        if kept is not None and size <= KEPT:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            kept[name] = mask
        return mask

    def _exchange_messages(
        self, transcript: Transcript, selected: Indices, rows: Matrix, pair: tuple[int, int], whole: dict[int, Vector]
    ) -> tuple[bool, bool]:
        """Exchange with all messages; a fault between partners drops both rows, one at the server only its sender's."""
        assert self.server is not None
        (one, other), round = pair, transcript.round
        k, j = int(selected[one]), int(selected[other])
        public, group = self.server.public, DIFFIE_HELLMAN_GROUPS[self.group]
        with transcript.timed("participants"):
            initiator = Initiator(rows[one], k, j, round, public, self.entropy, group)
            acceptor = Acceptor(rows[other], j, k, round, public, self.entropy, group)
        try:
            with transcript.timed("participants"):
                exchange_fragments(initiator, acceptor, lambda message: self._record_in_ledger(transcript, message))
        except ProtocolError as error:
            transcript.facts["faults"].append(f"between partners: {error}")
            return False, False
        arrived = []
        for place, party in ((one, initiator), (other, acceptor)):
            if party.name in transcript.participants:
                view = transcript.participants[party.name]
                received, extra = tuple(party.transcript), {"mask": party.mask}
                transcript.views[party.name] = ParticipantView(view.update, view.size, received, extra)
            if place in whole:
                arrived.append(self._submit_unmixed(transcript, party.name, whole[place], rows[place]))
            else:
                arrived.append(self._send_and_decrypt(transcript, party.submission(), rows[place]))
        return arrived[0], arrived[1]

    def _send_and_decrypt(self, transcript: Transcript, submission: ExchangeSubmission, out: Vector) -> bool:
        """Send a submission to the server, which decrypts it into a row; return whether that worked."""
        assert self.server is not None
        self._record_in_ledger(transcript, submission)
        try:
            with transcript.timed("server"):
                self.server.decrypt_submission(submission, submission.round, submission.sender, out)
        except ProtocolError as error:
            transcript.facts["faults"].append(f"at the server: {error}")
            return False
        return True

    def _submit_unmixed(self, transcript: Transcript, name: int, row: Vector, out: Vector) -> bool:
        """Submit a row that was not mixed."""
        if self.mode == "full":
            return self._send_and_decrypt(transcript, self._encrypt_unmixed(transcript.round, name, row), out)
        out[:] = row
        return True

    def _encrypt_unmixed(self, round: int, name: int, row: Vector) -> ExchangeSubmission:
        """Return an attacker's submission of a row that was not mixed, under a pad of its own."""
        assert self.server is not None
        seed = self.entropy.random_bytes(keystream.SEED_BYTES, "seed of a lone pad", round, name)
        encrypted = np.empty(len(row), np.uint32)
        keystream.xor_keystream(row.view(np.uint32), keystream.keystream_key(seed, "r", round), encrypted)
        sealed = self.server.public.encrypt(seed, self.entropy, round, "lone", name)
        return ExchangeSubmission(round, name, SERVER, keystream.as_bytes(encrypted), sealed)

    def _record_in_ledger(self, transcript: Transcript, message: M, /) -> M:
        """Add a message to the ledger, as it is sent."""
        transcript.ledger.add(message)
        return message

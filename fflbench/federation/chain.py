"""Defenses as chains of a transport, pre-aggregations and a rule, as in "fragment-exchange + clipping + median"."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from fflbench import registry
from fflbench.arrays import kernels
from fflbench.arrays.columns import Columns
from fflbench.crypto.entropy import Entropy
from fflbench.errors import NotRegisteredError, ParameterError, did_you_mean_hint
from fflbench.federation.messages import SERVER, GlobalModel
from fflbench.federation.rule import Geometry, NoAnswerError, Preaggregation, Rule
from fflbench.federation.server import Server
from fflbench.federation.simulation import Gram
from fflbench.federation.transport import Memory, ServerSetting, Setting, Transport
from fflbench.federation.views import Transcript, Upload, View
from fflbench.plugin_parameters import Parameter, parameter_texts
from fflbench.randomness import stream
from fflbench.registry import CHAINED, Entry, Kind
from fflbench.types import Indices, Matrix, Vector

PLAIN, MEAN = "plain", "fedavg"
"""Default transport of a chain that names none, and default rule of a transport without a rule."""


@dataclass(frozen=True)
class Parts:
    """Registered parts of a chain, in their order."""

    transport: Entry
    preaggregations: tuple[Entry, ...]
    rule: Entry

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all parts."""
        return self.transport, *self.preaggregations, self.rule

    def __str__(self) -> str:
        return chain_text([entry.name for entry in self.entries])

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters that can be set for the whole chain: each goes to every part that declares it."""
        return tuple({each.name: each for entry in reversed(self.entries) for each in entry.parameters}.values())

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration of every part, or raise a `ParameterError`.

        `given` holds parameters for all parts that declare them and, under a part's name, a table of its own.
        """
        tables = parameters_by_part(f'defense "{self}"', self.entries, self.parameters, given)
        transport, *middle, rule = (
            {"name": entry.name, "parameters": entry.check(own)}
            for entry, own in zip(self.entries, tables, strict=True)
        )
        return {"transport": transport, "preaggregations": middle, "rule": rule}


def parameters_by_part(
    label: str, entries: Sequence[Entry], parameters: Sequence[Parameter], given: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the parameters that are given for each part: those for all that declare them, and its own table.

    `parameters` are those that can be set for all parts.
    """
    names = {entry.name for entry in entries}
    own = {name: value for name, value in given.items() if name in names and isinstance(value, Mapping)}
    common = {name: value for name, value in given.items() if name not in own}
    known = {each.name for each in parameters}
    for name in common:
        if name not in known:
            tables = [f"{entry.name}.PARAMETER" for entry in entries if entry.parameters]
            accepted = ", ".join([*parameter_texts(parameters), *(tables if len(tables) > 1 else ())])
            valid = f"valid: {accepted}" if accepted else "it takes no parameters"
            if name in names:
                raise ParameterError(f"{label}: {name} must be a table of its parameters ({valid})")
            hint = did_you_mean_hint(name, [*known, *names])
            raise ParameterError(f'{label} has no parameter "{name}"{hint} ({valid})')

    def part(entry: Entry) -> dict[str, Any]:
        declared = {each.name for each in entry.parameters}
        shared = {name: value for name, value in common.items() if name in declared}
        return {**shared, **own.get(entry.name, {})}

    return [part(entry) for entry in entries]


def chain_text(names: Sequence[str]) -> str:
    """Return the text of a chain, transport first; the plain transport, and the mean after any other, are left out."""
    if names[0] == PLAIN:
        return " + ".join(names[1:] or names)
    return " + ".join(names[:1] if names[1:] == [MEAN] else names)


def parse(text: str) -> Parts:
    """Return the parts of a chain such as "nnm + trimmed-mean", or raise an error that says why it cannot be one."""
    entries = list(_expand(text))
    kinds = [entry.kind for entry in entries]
    transport = entries.pop(0) if kinds[0] is Kind.TRANSPORT else registry.get(Kind.TRANSPORT, PLAIN)
    # A transport without a rule gets the mean, the only rule that works with all transports.
    if not entries:
        entries = [registry.get(Kind.RULE, MEAN)]
    *middle, last = entries
    if last.kind is not Kind.RULE:
        raise ParameterError(f'"{text}" must end with a rule, and {last} is none (fflbench list rules)')
    for entry in middle:
        if entry.kind is not Kind.PREAGGREGATION:
            where = "first" if entry.kind is Kind.TRANSPORT else "last"
            raise ParameterError(f'"{text}": {entry} must stand {where}')
    twice = {entry.name for entry in middle if middle.count(entry) > 1}
    if twice:
        raise ParameterError(f'"{text}" names {", ".join(sorted(twice))} twice')
    parts = Parts(transport, tuple(middle), last)
    if reason := incompatibility(parts):
        raise ParameterError(f'"{text}" cannot work: {reason}')
    return parts


def _expand(text: str, inside: tuple[str, ...] = ()) -> Iterable[Entry]:
    """Yield the registered parts of a chain; a named chain is replaced by its parts."""
    for name in text.split("+"):
        entry = _find_part(name.strip(), text)
        if entry.name in inside:
            raise ParameterError(f"{entry} is a part of itself: {' + '.join(inside)}")
        if entry.kind is Kind.DEFENSE:
            yield from _expand(entry.target, (*inside, entry.name))
        else:
            yield entry


def _find_part(name: str, text: str) -> Entry:
    for kind in CHAINED:
        if entry := registry.find(kind, name):
            return entry
    names = [entry.name for kind in CHAINED for entry in registry.entries(kind)]
    inside = "" if name == text.strip() else f' of "{text}"'
    raise NotRegisteredError(
        f'defense "{name}"{inside} is not registered{did_you_mean_hint(name, names)} '
        "(fflbench list defenses; a file of your own: --plugin, or import it in Python)"
    )


def incompatibility(parts: Parts) -> str:
    """Return why the parts cannot be combined, in one sentence; an empty text if they can."""
    rows = parts.transport.target.rows
    if rows == "sum" and parts.preaggregations:
        return f"{parts.preaggregations[0].name} needs rows, and {parts.transport.name} shows the server only their sum"
    if rows == "sum" and not parts.rule.linear:
        return f"{parts.rule.name} needs rows, and {parts.transport.name} shows the server only their sum"
    if parts.rule.participants and rows not in ("participant", "mixture"):
        return f"{parts.rule.name} must know who sent each row, and {parts.transport.name} hides it"
    regrouping = [entry.name for entry in parts.preaggregations if entry.regroups]
    if parts.rule.participants and regrouping:
        return f"{parts.rule.name} must know who sent each row, and behind {regrouping[0]} rows have no sender"
    return ""


def create(configuration: Mapping[str, Any]) -> "Chain":
    """Return the chain of a configuration as `Parts.check` makes it; a measure may need only some parts."""
    default = {"name": MEAN, "parameters": {}}
    transport = configuration.get("transport", {"name": PLAIN, "parameters": {}})
    parts = [
        (Kind.TRANSPORT, transport),
        *((Kind.PREAGGREGATION, part) for part in configuration.get("preaggregations", ())),
        (Kind.RULE, configuration.get("rule", default)),
    ]
    created = [registry.get(kind, part["name"]).create(**part["parameters"]) for kind, part in parts]
    return Chain(created[0], created[1:-1], created[-1])


def defense(text: str, **given: Any) -> "Chain":
    """Return the chain of a text, with parameters as a suite's table has them."""
    return create(parse(text).check(given))


class Chain:
    """A defense that runs: its transport, which simulates all participants, and its server."""

    def __init__(self, transport: Transport, preaggregations: Sequence[Preaggregation], rule: Rule) -> None:
        self.transport, self.server = transport, Server(preaggregations, rule)

    @property
    def rule(self) -> Rule:
        """Return the rule."""
        return self.server.rule

    def validate(self, per_round: int) -> None:
        """Raise a `ParameterError` for parameters that cannot work with so many participants per round."""
        self.transport.validate(per_round)
        for part, n in zip(self.server.parts, self._row_counts(per_round), strict=True):
            part.validate(n, per_round)

    def begin(self, setting: Setting, seed: int) -> None:
        """Prepare for the first round; parts receive randomness, never the seed."""
        self.validate(setting.per_round)
        self.setting, self._seed = setting, seed
        self.transport.begin(setting, Entropy(seed))
        n = setting.per_round
        self.rule.begin(
            ServerSetting(setting.participants, n, setting.columns, self.transport.multiple, self._row_counts(n)[-1])
        )

    def simulation_copy(self, seed: int) -> "Chain":
        """Return a copy on which an attacker can try rows: the same memories, other random choices, no keys."""
        twin = Chain(
            self.transport.simulation_copy(Entropy(seed)), self.server.preaggregations, self.rule.simulation_copy()
        )
        twin.setting, twin._seed = self.setting, seed
        return twin

    @property
    def overwrites_rows(self) -> bool:
        """Whether the rows that participants send are overwritten on their way to the aggregate."""
        return self.transport.overwrites_rows or bool(self.server.preaggregations)

    @property
    def memory(self) -> dict[str, Memory]:
        """Return the state of all parts that lasts from round to round."""
        return {"transport": self.transport.memory, "rule": self.rule.memory}

    @memory.setter
    def memory(self, memory: Mapping[str, Memory]) -> None:
        self.transport.memory, self.rule.memory = memory["transport"], memory["rule"]

    # The steps of a round

    def select(self, round: int) -> Indices:
        """Return the participants of a round, in ascending order."""
        selected = self.rule.select(round, stream(self._seed, "selection", round))
        _check_selection(selected, self.setting.participants)
        return selected

    def transmit(
        self,
        round: int,
        model: Vector,
        participants: Indices,
        rows: Matrix,
        *,
        attackers: Indices | None = None,
        deviation: Any = None,
        clean: Any = None,
        watch: Collection[int] = (),
        all_finite: bool = False,
    ) -> Transcript:
        """Transmit the participants' rows, which are overwritten; rows that are not finite are dropped.

        Where `all_finite` rows are known to be so, they are not searched, unless the transport changes them.
        """
        hostile = np.isin(participants, [] if attackers is None else attackers)
        transcript = self.transport.transmit(Upload(round, model, participants, rows, hostile, deviation, clean, watch))
        _check_view(transcript, self.transport)
        if len(participants):
            transcript.ledger.add(GlobalModel(round, SERVER, int(participants[-1]), model.data), len(participants))
        view = transcript.server
        if not all_finite or self.transport.overwrites_rows:
            view = view.without_non_finite()
        if any(part.uses_oracle for part in self.server.parts):
            # Rows without senders are those of all attackers, as far as anybody can say.
            arrived = participants if view.participants is None else view.participants
            view = replace(view, attackers=int(np.isin(arrived, participants[hostile]).sum()))
        transcript.server = view.read_only()
        return transcript

    def aggregate(self, transcript: Transcript, gram: Gram = kernels.gram) -> Vector:
        """Return the change of the model and deliver the rule's feedback; `NoAnswerError` keeps the model.

        `gram` returns the inner products of the rows as participants sent them, some of which may be known already.
        """
        rng = stream(self._seed, "rule", transcript.round)
        known = kernels.gram if self.transport.overwrites_rows else gram
        try:
            change, feedback = self.server.aggregate(transcript.server, rng, known)
        except NoAnswerError as none:
            self._deliver(transcript, none.feedback)
            raise
        self._deliver(transcript, feedback)
        return change

    def _deliver(self, transcript: Transcript, feedback: Any) -> None:
        check_feedback(feedback, self.setting.participants)
        self.transport.deliver(transcript, feedback)

    def report(self, transcript: Transcript) -> dict[str, Any]:
        """Return what the parts report for the history of a round."""
        return {**transcript.facts, **self.rule.report()}

    def assumed_attackers(self, selected: int, n: int, attackers: int | None = None) -> int | None:
        """Return the number of attackers that all parts with an f are set to tolerate; None without any f."""
        parts = zip(self.server.parts, self._row_counts(n), strict=True)
        assumed = [part.assumed_attackers(selected, rows, attackers) for part, rows in parts]
        return min((f for f in assumed if f is not None), default=None)

    def flags(self) -> list[str]:
        """Return warnings for readers of the results about this defense in this setting."""
        selected = self.setting.per_round
        flags = self._flags_about_mixtures() if self.transport.rows == "mixture" else []
        steps = zip(self.server.preaggregations, self._row_counts(selected), strict=False)
        warnings = [flag for step, n in steps for flag in step.warnings_about_f(selected, n)]
        return [*flags, *self.transport.flags(), *warnings, *self.rule.flags()]

    def _flags_about_mixtures(self) -> list[str]:
        """Return warnings about parts that take rows for single participants' updates where they are mixtures."""
        selected, mixtures, flags = self.setting.per_round, "rows are mixtures of several participants' updates", []
        by_coordinate = self.rule.coordinatewise and not self.server.preaggregations
        if self.rule.needs_participants:
            flags.append(f"{mixtures}, and its rule judges their senders by them")
        # Where nobody can deviate, f attackers have f values in every coordinate, though in more than f rows.
        exact = by_coordinate and self.transport.deviation is None
        if self.assumed_attackers(selected, selected, 0) is not None and not exact:
            flags.append(f"{mixtures}, so that f attackers can reach more than f of them")
        if not flags and not by_coordinate:
            flags.append(f"{mixtures}, and what follows judges them whole")
        return flags

    def _row_counts(self, n: int) -> list[int]:
        """Return the numbers of rows that each pre-aggregation and the rule receive for n updates."""
        counts = [1 if self.transport.rows == "sum" else n]
        for step in self.server.preaggregations:
            counts.append(_rows_after(step, counts[-1]))
        return counts


def _rows_after(step: Preaggregation, n: int) -> int:
    """Return the number of rows that a pre-aggregation returns for n random ones."""
    if not step.entry.regroups or not n:
        return n
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 1), np.float32)
    view = View(0, rows[0], rows, np.ones(n), Columns.of_length(1), n, participants=np.arange(n), attackers=0)
    try:
        return len(step.coefficients(view, Geometry(rows), rng)) or n
    except NoAnswerError:
        # An f that is too large for n is refused when the step itself is validated.
        return n


# Checks of what parts return


def _check_selection(selected: Any, participants: int) -> None:
    whole = isinstance(selected, np.ndarray) and selected.ndim == 1 and selected.dtype.kind == "i" and len(selected)
    if not whole or selected[0] < 0 or selected[-1] >= participants or (np.diff(selected) <= 0).any():
        raise ParameterError(
            f"a rule must select at least one of participants 0 to {participants - 1}, in ascending order, as an array "
            "of whole numbers"
        )


def _check_view(transcript: Any, transport: Transport) -> None:
    """Raise an error for a transcript without a complete view of the server on which the rule runs."""
    name = type(transport).__name__
    views = transcript.views if isinstance(transcript, Transcript) else {}
    view = views.get("server", views.get("server-1"))
    if not isinstance(view, View):
        raise ParameterError(f"{name}.transmit must return a Transcript with the View of a server")
    columns, n = view.columns.count, len(view.rows)
    if view.rows.ndim != 2 or view.rows.shape[1] != columns:
        raise ParameterError(f"{name}.transmit: the rows of a server's view must be a matrix of {columns} columns")
    named = transport.rows in ("participant", "mixture")
    for what, values in {"weights": view.weights, "sizes": view.sizes, "participants": view.participants}.items():
        if (values is None and what == "participants" and named) or (values is not None and len(values) != n):
            raise ParameterError(f"{name}.transmit: a server's view must have {what} for each of its {n} rows")


def check_feedback(feedback: Any, participants: int) -> None:
    """Raise an error for feedback that is not numbers by participants."""
    numbered = isinstance(feedback, Mapping) and all(
        isinstance(who, int | np.integer) and 0 <= who < participants and isinstance(value, Real)
        for who, value in feedback.items()
    )
    if not numbered:
        raise ParameterError(f"feedback must be numbers by participants, who are numbered from 0 to {participants - 1}")

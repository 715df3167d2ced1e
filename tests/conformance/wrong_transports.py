"""Wrong transports."""

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from fflbench.plugin import Transport, transport
from fflbench.registry import Kind
from tests.conformance.wrong_plugins import refused

TRANSPORT = Kind.TRANSPORT


class Submitting(Transport):
    """Sends every update as it is."""

    def transmit(self, upload):
        return self.submitted(upload)


def with_rows(transcript, rows):
    """Return a transcript in which the server sees other rows."""
    transcript.server = replace(transcript.server, rows=rows)
    return transcript


@refused(
    TRANSPORT,
    "server-view",
    'transport "wrong" returned the server\'s rows as float64 of shape (4, 12), and must return float32 of '
    "shape (4, 12)",
)
def shows_double_precision():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            return with_rows(self.submitted(upload), upload.rows.astype(np.float64))


@refused(TRANSPORT, "server-view", 'transport "wrong" declares that the server sees a sum, and showed it 4 rows')
def declares_a_sum_and_shows_rows():
    @transport("wrong", title="Wrong")
    class Wrong(Submitting):
        rows: ClassVar = "sum"


@refused(
    TRANSPORT,
    "server-view",
    'transport "wrong" declares one row per participant, and did not show the server one from each',
)
def loses_a_row():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            upload.rows[0] = np.nan
            return self.submitted(upload)


@refused(
    TRANSPORT,
    "single-sender",
    'transport "wrong" raised IndexError: index 1 is out of bounds for axis 0 with size 1 when it was '
    "checked that a round of one participant gives rows, or is refused with a ParameterError before the "
    "first round",
)
def needs_a_second_sender():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            upload.rows[0], upload.rows[1] = upload.rows[1].copy(), upload.rows[0].copy()
            return self.submitted(upload)


@refused(
    TRANSPORT,
    "determinism",
    'transport "wrong" gave other bits when it was called again with the same inputs and generators',
)
def takes_noise_from_the_global_generator():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            upload.rows[:] += np.random.standard_normal(upload.rows.shape)
            return self.submitted(upload)


@refused(TRANSPORT, "inputs-unchanged", 'transport "wrong" changed the model, which must stay as before')
def scales_the_model():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            upload.model[:] *= 2
            return self.submitted(upload)


@refused(
    TRANSPORT,
    "attackers-treated-alike",
    'transport "wrong" treated attackers in another way, and must not use who they are unless they deviate',
)
def drops_attackers():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            upload.rows[upload.attackers] = 0
            return self.submitted(upload)


@refused(TRANSPORT, "watched-views", 'transport "wrong" left the view of participant 0 out, which was to be watched')
def ignores_whom_to_watch():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            return self.submitted(replace(upload, watch=()))


@refused(
    TRANSPORT,
    "facts-are-json",
    'transport "wrong" gave facts of a round that no record can hold (Object of type ndarray is not JSON serializable)',
)
def reports_an_array():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            transcript = self.submitted(upload)
            transcript.facts["norms"] = np.ones(3)
            return transcript


@refused(
    TRANSPORT,
    "simulated-round",
    'transport "wrong" changed the memory of the real transport, which must stay as before',
)
def shares_its_memory_with_its_twin():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def begin(self, setting, entropy):
            super().begin(setting, entropy)
            self.memory["rounds"] = np.zeros(1)

        def simulation_copy(self, entropy):
            return self

        def transmit(self, upload):
            self.memory["rounds"] += 1
            return self.submitted(upload)


@refused(
    TRANSPORT,
    "modes-agree",
    'transport "wrong" showed the server rows with another mean with mode = "fast" than with mode = "full"',
)
def adds_noise_in_full_mode():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        mode: Literal["fast", "full"] = "fast"

        def transmit(self, upload):
            if self.mode == "full":
                upload.rows[:] += 1
            return self.submitted(upload)


@refused(
    TRANSPORT,
    "hostile-updates",
    'transport "wrong" gave an aggregate with NaN or infinity when updates held tiny values; a finite '
    "aggregate or a NoAnswerError would be right",
)
def divides_by_the_largest_value():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        def transmit(self, upload):
            transcript = self.submitted(upload)
            transcript.server = replace(transcript.server, scale=1 / np.nanmax(np.abs(upload.rows)))
            return transcript


@refused(
    TRANSPORT,
    "resuming",
    'transport "wrong" led to another model after the run was stopped and resumed: what lasts from round to '
    "round must stand in its memory",
)
def keeps_its_errors_outside_its_memory():
    @transport("wrong", title="Wrong")
    class Wrong(Transport):
        error = 0

        def transmit(self, upload):
            upload.rows[:] += self.error
            self.error = upload.rows.mean()
            return self.submitted(upload)

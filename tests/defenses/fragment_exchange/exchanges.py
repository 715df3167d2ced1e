"""Exchanges between two participants, run as a whole or message by message."""

import numpy as np
from fflbench.defenses.transports.fragment_exchange.parties import (
    exchange_fragments,
)


def complete(initiator, acceptor):
    exchange_fragments(initiator, acceptor)
    return initiator.submission(), acceptor.submission()


def opened(submission, server, size):
    out = np.empty(size, np.float32)
    server._heard = (-1, set())
    server.decrypt_submission(submission, submission.round, submission.sender, out)
    return out


def messages(parties):
    k, j = parties()
    offer = k.make_offer()
    answer = j.answer_offer(offer)
    return k, j, offer, answer

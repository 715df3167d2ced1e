"""Film reviews (Maas et al., Learning word vectors for sentiment analysis, ACL 2011) with a bidirectional LSTM.

As in the FFL paper, section "Data sets and models".
"""

from typing import TYPE_CHECKING

from fflbench.data.imdb import CLASSES, IMDB, PADDING
from fflbench.registry import task
from fflbench.tasks import Task

if TYPE_CHECKING:
    from torch import nn


@task("imdb-bilstm", title="IMDB, BiLSTM")
class ImdbBiLSTM(Task):
    """Whether a review praises its film."""

    data_set = IMDB
    classes = CLASSES
    model_from_data = True

    rounds = 100
    optimizer = "adam"
    learning_rate = 0.001
    loss = "binary-cross-entropy"
    noise_sigma = 0.2
    source = CLASSES.index("positive")
    target = CLASSES.index("negative")

    def model(self) -> "nn.Module":
        from fflbench.tasks._bilstm import BiLSTM

        return BiLSTM(self.data().facts["vocabulary"], padding=PADDING)

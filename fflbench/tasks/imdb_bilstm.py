"""Film reviews (Maas et al., Learning word vectors for sentiment analysis, ACL 2011) with a bidirectional LSTM.

As in the FFL paper, section "Data sets and models".
"""

from typing import TYPE_CHECKING, ClassVar

from fflbench.plugin import IMDB, IMDB_PADDING, Task, task

if TYPE_CHECKING:
    from torch import nn


@task("imdb-bilstm", title="IMDB, BiLSTM")
class ImdbBiLSTM(Task):
    """Whether a review praises its film."""

    data_set = IMDB
    classes = IMDB.classes
    attack_defaults: ClassVar = {
        "gaussian-noise": {"sigma": 0.2},
        "label-flipping": {"source": IMDB.classes.index("positive"), "target": IMDB.classes.index("negative")},
    }
    trait_class = IMDB.classes.index("positive")
    model_from_data = True

    rounds = 100
    optimizer = "adam"
    learning_rate = 0.001
    loss = "binary-cross-entropy"

    def model(self) -> "nn.Module":
        from fflbench.tasks._bilstm import BiLSTM

        return BiLSTM(self.data().facts["vocabulary"], padding=IMDB_PADDING)

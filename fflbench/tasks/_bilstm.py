"""Network of imdb-bilstm, in its own module because its definition imports torch."""

import torch
from torch import Tensor, nn


class BiLSTM(nn.Module):
    """Embedding, bidirectional LSTM, mean and maximum of its states over the words, and one logit."""

    def __init__(self, vocabulary: int, *, padding: int, embedding: int = 100, hidden: int = 128) -> None:
        super().__init__()
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=padding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.output = nn.Linear(4 * hidden, 1)

    def forward(self, words: Tensor) -> Tensor:
        """Return one logit per review; both poolings ignore padding, and a review without words is one padding."""
        states, _ = self.lstm(self.embedding(words))
        absent = (words == self.padding).unsqueeze(-1)
        absent[:, -1] = False
        mean = states.masked_fill(absent, 0).sum(1) / (~absent).sum(1)
        maximum = states.masked_fill(absent, float("-inf")).amax(1)
        logit: Tensor = self.output(torch.cat([mean, maximum], 1))
        return logit

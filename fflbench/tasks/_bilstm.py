"""The network of imdb-bilstm; apart from its task because it needs torch to be defined."""

import torch
from torch import Tensor, nn


class BiLSTM(nn.Module):
    """An embedding, one bidirectional LSTM, the mean and the maximum of its states over the words, and one logit."""

    def __init__(self, vocabulary: int, *, padding: int, embedding: int = 100, hidden: int = 128) -> None:
        super().__init__()
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=padding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.output = nn.Linear(4 * hidden, 1)

    def forward(self, words: Tensor) -> Tensor:
        """One logit a review. Padding is left out of both poolings; a review without words counts as one padding."""
        states, _ = self.lstm(self.embedding(words))
        absent = (words == self.padding).unsqueeze(-1)
        absent[:, -1] = False
        mean = states.masked_fill(absent, 0).sum(1) / (~absent).sum(1)
        maximum = states.masked_fill(absent, float("-inf")).amax(1)
        logit: Tensor = self.output(torch.cat([mean, maximum], 1))
        return logit

"""Split and mix: participants hand random additive shares of their updates to each other, and submit sums of shares."""

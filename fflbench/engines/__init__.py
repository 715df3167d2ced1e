"""Engines of local training: every participant starts from the global model and trains on its own examples.

Engines give the same updates up to rounding. `loop` trains one participant after the other, any model; `stacked` trains
all at once as batched products, which is several times faster for small models and slower for larger convolutions. A
task names its engine.
"""

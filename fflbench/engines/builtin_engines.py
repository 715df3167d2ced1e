"""Engines that come with fflbench; torch is loaded when one of them is used."""

from typing import TYPE_CHECKING

from fflbench.plugin import engine

if TYPE_CHECKING:
    from fflbench.plugin import Engine, FlatModel, LocalData


@engine("loop", title="One by one")
def loop(model: "FlatModel", data: "LocalData") -> "Engine":
    """Train one participant after the other; any model."""
    from fflbench.engines.loop import Loop

    return Loop(model, data)


@engine("stacked", title="Stacked")
def stacked(model: "FlatModel", data: "LocalData") -> "Engine":
    """Train all participants at once as batched products; small models of common layers."""
    from fflbench.engines.stacked import Stacked

    return Stacked(model, data)


@engine("compiled", title="Compiled")
def compiled(model: "FlatModel", data: "LocalData") -> "Engine":
    """Train one participant after the other with compiled convolutions; small networks, on a GPU as `loop` does."""
    if model.flat.device.type != "cpu":
        return loop(model, data)
    from fflbench.engines.compiled import Compiled

    return Compiled(model, data)

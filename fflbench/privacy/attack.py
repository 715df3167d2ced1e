"""What every attack on privacy by a server has: gradients it attacks, and what it makes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    # Attacks are listed without loading torch, so they import it where they use it.
    import torch
    from torch import Tensor, nn


@dataclass(frozen=True)
class Observed:
    """Gradients of many victims, to be attacked together: a mean gradient over `count` examples each.

    All started from the same model. Nothing here comes from the victims but their gradients.
    """

    model: "nn.Module"
    """The global model, with its weights; not to be changed."""
    gradients: "tuple[Tensor, ...]"
    """In the order of the model's parameters; the first axis counts victims."""
    count: int
    """Examples behind each gradient."""
    shape: tuple[int, ...]
    """Of one example."""
    classes: int
    loss: Literal["cross-entropy", "binary-cross-entropy"]
    low: "Tensor"
    """The least value of each channel, or feature: public, as is how a set is normalised."""
    high: "Tensor"
    generator: "torch.Generator"
    """Randomness for starting points; always the processor's, so that devices start alike."""
    matched: tuple[bool, ...] = ()
    """Which parameters' gradients are one victim's; of the others, if any, only a mean over several is known."""
    sharing: int = 1
    """Over so many victims, one after the other."""
    y: "Tensor | None" = None
    """Victims x examples: their classes, where somebody knows them."""
    tell: Callable[[int], None] = lambda _: None
    """Hears of every step of a search."""

    @property
    def victims(self) -> int:
        """How many gradients there are."""
        return len(self.gradients[0])

    def start(self, *shape: int) -> "Tensor":
        """Random numbers to begin with, a row a victim."""
        import torch

        return torch.randn(self.victims, *shape, generator=self.generator).to(self.gradients[0].device)


@dataclass(frozen=True)
class Guess:
    """What an attack believes the examples to be."""

    x: "Tensor"
    """Victims x examples x the shape of one."""
    y: "Tensor"
    """Victims x examples: their classes."""


@dataclass(kw_only=True)
class CuriousServer:
    """An attack by a server that follows the protocol; its fields are its parameters."""

    knows: ClassVar[tuple[str, ...]] = ()
    """What it declares it must know; set by the decorator that registers it."""

    @property
    def rehearses(self) -> bool:
        """Whether it takes the defense into account by playing rounds behind it itself."""
        return False


@dataclass(kw_only=True)
class PrivacyAttack(CuriousServer):
    """A curious server that looks at gradients."""

    def reconstruct(self, observed: Observed) -> Guess:
        """Rebuild every victim's examples."""
        raise NotImplementedError

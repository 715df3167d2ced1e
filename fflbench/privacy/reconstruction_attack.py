"""Base classes of privacy attacks by a curious server, with their input and output."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from fflbench.errors import ParameterError

if TYPE_CHECKING:
    # Attacks are listed without loading torch, so they import it where they use it.
    import torch
    from torch import Tensor, nn

LABELS = "victims' labels"
"""Knowledge of an attack that is given the labels."""


@dataclass(frozen=True)
class TrainingProtocol:
    """Local training behind an observed update, as the protocol prescribes it: public to the server."""

    rate: float = 1.0
    """Learning rate."""
    epochs: int = 1
    """Passes over a participant's examples."""
    batch_size: int | None = None
    """Examples in a step; None for all of a participant."""
    momentum: float = 0.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    participants: int = 1
    """Participants with as many examples each, whose mean update is observed."""

    def step_count(self, examples: int) -> int:
        """Return the number of steps of a participant with so many examples."""
        return self.epochs * math.ceil(examples / (self.batch_size or examples))

    def gradients_summed(self, examples: int) -> float:
        """Return how often an update of a participant with so many examples contains its gradient, if that is constant.

        Without momentum that is the number of steps.
        """
        left = range(1, self.step_count(examples) + 1)
        return sum((1 - self.momentum**steps) / (1 - self.momentum) for steps in left)


@dataclass(frozen=True)
class FirstLayerGradients:
    """Gradients of a model's first layer, which is linear, one per observed update."""

    layer: "nn.Linear"
    by_weight: "Tensor"
    """Gradients by the weight, updates x outputs x inputs."""
    by_bias: "Tensor"
    """Gradients by the bias, updates x outputs."""
    count: int
    """Number of examples behind each."""


@dataclass(frozen=True)
class ObservedGradients:
    """Gradients of many victims, attacked together: one mean gradient over `count` examples per victim.

    All started from the same model. Nothing here comes from the victims but their gradients.
    """

    model: "nn.Module"
    """The global model, with its weights; must not be changed."""
    gradients: "tuple[Tensor, ...]"
    """Gradients in the order of the model's parameters; the first axis is the victim."""
    count: int
    """Number of examples behind each gradient."""
    shape: tuple[int, ...]
    """Shape of one example."""
    classes: int
    """Number of classes."""
    loss: Literal["cross-entropy", "binary-cross-entropy"]
    """Loss that the victims trained with."""
    low: "Tensor"
    """Least value of each channel or feature: public, as is the normalisation of a dataset."""
    high: "Tensor"
    """Greatest value of each channel or feature."""
    generator: "torch.Generator"
    """Randomness for starting points; always on the CPU, so that all devices start alike."""
    matched: tuple[bool, ...] = ()
    """Whether each parameter's gradient is one victim's own; of the others, only the mean of several is known."""
    sharing: int = 1
    """Number of consecutive victims in such a mean."""
    y: "Tensor | None" = None
    """Labels, victims x examples, where they are known, as to an attack that declares `LABELS`."""
    local: TrainingProtocol = TrainingProtocol()
    """Local training, of which the gradients are the mean."""
    report: Callable[[int], None] = lambda _: None
    """Callback for progress, called after every step of a search."""

    @property
    def victim_count(self) -> int:
        """Number of victims."""
        return len(self.gradients[0])

    def gradient_pairs(self, x: "Tensor", y: "Tensor") -> "list[tuple[Tensor, Tensor]]":
        """Return the gradients that examples would have beside the observed ones, one pair per parameter.

        `x` is victims x examples x the shape of one, `y` victims x examples. The first axis of every gradient is the
        victim, and the first of each pair can be differentiated by `x`. Parameters of which only the mean of several
        victims' gradients is known are left out.
        """
        from torch.func import vmap
        from torch.nn import functional as F

        from fflbench.privacy.gradient_inversion import gradient_function

        dummies = vmap(gradient_function(self))(x, F.one_hot(y, self.classes).to(x.dtype))
        pairs = zip(dummies, self.gradients, strict=True)
        return list(itertools.compress(pairs, self.matched or (True,) * len(self.gradients)))

    def first_linear_layer(self, attack: str) -> FirstLayerGradients:
        """Return the gradients of the first layer, or raise an error where it is not linear with a bias.

        Where only the mean over several victims is known, it is returned once, with the examples of all of them.
        """
        from torch import nn

        modules = list(self.model.modules())
        layer = next((each for each in modules if next(each.parameters(recurse=False), None) is not None), None)
        linear = isinstance(layer, nn.Linear) and layer.in_features == math.prod(self.shape)
        if not isinstance(layer, nn.Linear) or not linear or layer.bias is None:
            raise ParameterError(f"{attack} needs a model that begins with a biased linear layer")
        shared = self.sharing if self.matched and not self.matched[0] else 1
        return FirstLayerGradients(layer, self.gradients[0][::shared], self.gradients[1][::shared], self.count * shared)

    def random_start(self, *shape: int) -> "Tensor":
        """Return random numbers to start from, one row per victim."""
        import torch

        return torch.randn(self.victim_count, *shape, generator=self.generator).to(self.gradients[0].device)


@dataclass(frozen=True)
class ReconstructedExamples:
    """Reconstructed examples."""

    x: "Tensor"
    """Inputs, victims x examples x the shape of one."""
    y: "Tensor"
    """Labels, victims x examples."""


@dataclass(kw_only=True)
class CuriousServer:
    """Attack by a server that follows the protocol; its fields are its parameters."""

    knows: ClassVar[tuple[str, ...]] = ()
    """Knowledge that the attack needs; set by the decorator that registers it."""

    @property
    def simulates_rounds(self) -> bool:
        """Whether the attack adapts to the defense by simulating rounds with it."""
        return False


@dataclass(kw_only=True)
class ReconstructionAttack(CuriousServer):
    """Attack by a curious server that reconstructs examples from gradients."""

    def inversion_steps(self, local_steps: int) -> float:
        """Return the duration of the attack, as a number of steps of gradient inversion, for estimates."""
        return float(getattr(self, "steps", 1) * getattr(self, "restarts", 1))

    def reconstruct(self, observed: ObservedGradients) -> ReconstructedExamples:
        """Reconstruct every victim's examples."""
        raise NotImplementedError

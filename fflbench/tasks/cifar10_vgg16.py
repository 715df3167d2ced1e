"""CIFAR-10 (Krizhevsky, Learning multiple layers of features from tiny images, 2009) with VGG16, as in the FFL paper.

VGG16 is configuration D of Simonyan and Zisserman (Very deep convolutional networks for large-scale image recognition,
ICLR 2015); here with batch normalisation, and one fully connected layer instead of three, since five poolings leave a
single position of a 32 x 32 image. The size of the model that the paper prints, 58.9131 MB, is this one's; the 250K
parameters that it gives its last layer are those of `head = "7x7"`.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from fflbench.plugin import CIFAR10, Task, task

if TYPE_CHECKING:
    from torch import nn

WIDTH = 64
"""Channels of VGG16's first convolution."""


@task("cifar10-vgg16", title="CIFAR-10, VGG16")
class Cifar10VGG16(Task):
    """Ten kinds of objects in photographs of 32 x 32 pixels."""

    data_set = CIFAR10
    classes = CIFAR10.classes
    attack_defaults: ClassVar = {
        "gaussian-noise": {"sigma": 0.2},
        "label-flipping": {"source": CIFAR10.classes.index("cat"), "target": CIFAR10.classes.index("dog")},
    }
    trait_class = CIFAR10.classes.index("cat")

    rounds = 100
    local_epochs = 3
    width: Annotated[int, Ge(1), "channels of the first convolution, to which all others are proportional"] = WIDTH
    head: Annotated[
        Literal["1x1", "7x7"],
        "inputs of the last layer: the position that the poolings leave, or its copies in a grid of 7 x 7, as "
        "torchvision's VGG16 makes them of images smaller than 224 x 224",
    ] = "1x1"

    def model(self) -> "nn.Module":
        from torch import nn
        from torchvision.models.vgg import cfgs, make_layers

        layers = [layer if isinstance(layer, str) else layer * self.width // WIDTH for layer in cfgs["D"]]
        grid = [nn.AdaptiveAvgPool2d(7)] if self.head == "7x7" else []
        inputs = 8 * self.width * (49 if self.head == "7x7" else 1)
        return nn.Sequential(*make_layers(layers, batch_norm=True), *grid, nn.Flatten(), nn.Linear(inputs, 10))

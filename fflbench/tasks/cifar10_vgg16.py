"""CIFAR-10 (Krizhevsky, Learning multiple layers of features from tiny images, 2009) with VGG16, as in the FFL paper.

VGG16 is configuration D of Simonyan and Zisserman (Very deep convolutional networks for large-scale image recognition,
ICLR 2015); here with batch normalisation, and one fully connected layer instead of three, since five poolings leave a
single position of a 32 x 32 image.
"""

from typing import TYPE_CHECKING, ClassVar

from fflbench.plugin import CIFAR10, Task, task

if TYPE_CHECKING:
    from torch import nn


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

    def model(self) -> "nn.Module":
        from torch import nn
        from torchvision.models.vgg import cfgs, make_layers

        return nn.Sequential(*make_layers(cfgs["D"], batch_norm=True), nn.Flatten(), nn.Linear(512, 10))

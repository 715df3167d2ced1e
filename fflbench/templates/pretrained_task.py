"""Digits, classified by the features of a network that was trained on ImageNet. An example."""

from typing import TYPE_CHECKING, Annotated

from fflbench.plugin import Data, Task, load_digits, task

if TYPE_CHECKING:
    from torch import nn


@task("pretrained-digits", title="Digits, features of SqueezeNet")
class PretrainedDigits(Task):
    """Which digit an image shows; only the last layer is trained."""

    classes = tuple("0123456789")
    rounds = 5
    learning_rate = 0.05

    trained_features: Annotated[bool, "train the pretrained layers too"] = False

    def data(self) -> Data:
        return load_digits()

    def model(self) -> "nn.Module":
        from torch import nn
        from torchvision.models import SqueezeNet1_1_Weights, squeezenet1_1

        features = squeezenet1_1(weights=SqueezeNet1_1_Weights.DEFAULT).features
        features.requires_grad_(self.trained_features)
        # Grey images of 8 x 8 become what the network expects: three equal channels, and more pixels.
        channels = nn.Conv2d(1, 3, 1, bias=False).requires_grad_(False)
        nn.init.ones_(channels.weight)
        return nn.Sequential(
            nn.Upsample(scale_factor=4), channels, features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
        )

"""Image networks in PyTorch: a residual convolutional network and a vision transformer.

Both take images as the prepared data holds them and standardise every channel themselves. Layers
normalise per image, not per batch, so that training and serving compute the same.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gpuyard.learn.networks.images import EPSILON, ImageShape
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainers.torch_images.image_settings import TorchCnnSpec, TorchVitSpec


class ImageNet(nn.Module):  # type: ignore[misc]
    """A network on images; returns the mean loss when called with images and classes."""

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self.channels_first = shape.channels_first
        for name in ("pixel_mean", "pixel_scale"):
            self.register_buffer(name, torch.zeros(shape.channels))

    def load(self, weights: Weights) -> None:
        """Take these weights."""
        self.load_state_dict(
            {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
        )

    def out(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits per image, in float32."""
        x = images if self.channels_first else images.permute(0, 3, 1, 2)
        x = (x - self.pixel_mean[:, None, None]) * self.pixel_scale[:, None, None]
        return self.logits(x).float()

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, images: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.out(images), y.long())


class ResidualBlock(nn.Module):  # type: ignore[misc]
    """A residual block: twice norm, ReLU and convolution; the first may halve the size."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(1, inputs, eps=EPSILON)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        self.norm2 = nn.GroupNorm(1, outputs, eps=EPSILON)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.shortcut = (
            nn.Conv2d(inputs, outputs, 1, stride) if (inputs, stride) != (outputs, 1) else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(torch.relu(self.norm1(x)))
        y = self.conv2(torch.relu(self.norm2(y)))
        out: torch.Tensor = y + (x if self.shortcut is None else self.shortcut(x))
        return out


class Cnn(ImageNet):
    """The residual convolutional network."""

    def __init__(self, spec: TorchCnnSpec, shape: ImageShape) -> None:
        super().__init__(shape)
        widths = [spec.channels * 2**stage for stage in range(spec.stages)]
        self.stem = nn.Conv2d(shape.channels, widths[0], 3, padding=1)
        self.blocks = nn.ModuleList()
        inputs = widths[0]
        for stage, width in enumerate(widths):
            for number in range(spec.blocks):
                stride = 2 if stage and not number else 1
                self.blocks.append(ResidualBlock(inputs, width, stride))
                inputs = width
        self.norm = nn.GroupNorm(1, inputs, eps=EPSILON)
        self.head = nn.Linear(inputs, shape.classes)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(torch.relu(self.norm(x)).mean(dim=(2, 3)))
        return out


class VitLayer(nn.Module):  # type: ignore[misc]
    """A transformer layer: attention and MLP, each after a norm, added to its input."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden, eps=EPSILON)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=EPSILON)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images, patches, hidden = x.shape
        split = self.qkv(self.norm1(x)).view(images, patches, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).reshape(images, patches, hidden))
        out: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm2(x))))
        return out


class Vit(ImageNet):
    """The vision transformer; the mean over the patches is classified."""

    def __init__(self, spec: TorchVitSpec, shape: ImageShape) -> None:
        super().__init__(shape)
        patches = (shape.height // spec.patch) * (shape.width // spec.patch)
        self.stem = nn.Conv2d(shape.channels, spec.hidden, spec.patch, spec.patch)
        self.positions = nn.Parameter(torch.zeros(patches, spec.hidden))
        self.blocks = nn.ModuleList(VitLayer(spec.hidden, spec.heads) for _ in range(spec.layers))
        self.norm = nn.LayerNorm(spec.hidden, eps=EPSILON)
        self.head = nn.Linear(spec.hidden, shape.classes)

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.norm(x).mean(dim=1))
        return out


def network(spec: TorchCnnSpec | TorchVitSpec, shape: ImageShape, weights: Weights) -> ImageNet:
    """Return the network of a spec with these weights."""
    net = Cnn(spec, shape) if isinstance(spec, TorchCnnSpec) else Vit(spec, shape)
    net.load(weights)
    return net

"""Image networks, independent of the framework: shapes, initial weights, FLOPs, augmentation."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.networks.weights import Weights, normal_weights
from gpuyard.learn.trainer import ImageData
from gpuyard.learn.trainers.torch_images.image_settings import (
    Augmentation,
    TorchCnnSpec,
    TorchVitSpec,
)
from gpuyard.registry.bundle import ONNX

EPSILON = 1e-5  # of every norm
STATISTICS_IMAGES = 2048  # mean and deviation of the channels are taken from the first of them
HEAD = "head."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageShape:
    """Size of the images and number of classes."""

    height: int
    width: int
    channels: int
    channels_first: bool
    classes: int


def image_shape(data: ImageData) -> ImageShape:
    """Return the shape of the data's images."""
    channels, height, width = data.shape if data.channels_first else np.roll(data.shape, 1)
    return ImageShape(
        height=int(height),
        width=int(width),
        channels=int(channels),
        channels_first=data.channels_first,
        classes=len(data.classes),
    )


def check_image_shape(spec: TorchCnnSpec | TorchVitSpec, shape: ImageShape, where: str) -> None:
    """Raise InputError if the network cannot take images of this shape."""
    if isinstance(spec, TorchCnnSpec):
        smallest = min(shape.height, shape.width)
        if 2 ** (spec.stages - 1) > smallest:
            what = f"{spec.stages} stages halve {smallest} pixels to less than one"
            raise InputError.one(f"{where}: stages", what, "use fewer stages or larger images")
        return
    if spec.hidden % spec.heads:
        what = f"{spec.hidden} is not a multiple of {spec.heads} heads"
        raise InputError.one(f"{where}: heads", what, "use a divisor of hidden")
    if shape.height % spec.patch or shape.width % spec.patch:
        what = f"images of {shape.height} × {shape.width} are not whole patches of {spec.patch}"
        raise InputError.one(f"{where}: patch", what, "use a divisor of height and width")


def initial_weights(spec: TorchCnnSpec | TorchVitSpec, data: ImageData, seed: int) -> Weights:
    """Return the weights: drawn by name from the seed, channel statistics from the images."""
    shape = image_shape(data)
    sizes = _cnn_sizes(spec, shape) if isinstance(spec, TorchCnnSpec) else _vit_sizes(spec, shape)
    weights: Weights = {}
    for name, size in sizes.items():
        if name.endswith("bias"):
            weights[name] = np.zeros(size, dtype=np.float32)
        elif "norm" in name:
            weights[name] = np.ones(size, dtype=np.float32)
        else:
            inputs = math.prod(size[1:])
            gain = 2.0 if isinstance(spec, TorchCnnSpec) and not name.startswith(HEAD) else 1.0
            scale = 0.02 if name == "positions" else math.sqrt(gain / inputs)
            weights[name] = normal_weights(seed, name, size, scale)
    count = min(len(data), STATISTICS_IMAGES)
    pixels = data.of(np.arange(count)).astype(np.float64)
    axes = (0, 2, 3) if data.channels_first else (0, 1, 2)
    deviation = pixels.std(axis=axes)
    weights["pixel_mean"] = pixels.mean(axis=axes).astype(np.float32)
    weights["pixel_scale"] = (1.0 / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)
    return weights if spec.base is None else weights | _base_weights(spec.base, weights)


def _cnn_sizes(spec: TorchCnnSpec, shape: ImageShape) -> dict[str, tuple[int, ...]]:
    sizes = _conv("stem", shape.channels, spec.channels, 3)
    inputs, number = spec.channels, 0
    for stage in range(spec.stages):
        width = spec.channels * 2**stage
        for block in range(spec.blocks):
            name = f"blocks.{number}"
            sizes |= _norm(f"{name}.norm1", inputs) | _conv(f"{name}.conv1", inputs, width, 3)
            sizes |= _norm(f"{name}.norm2", width) | _conv(f"{name}.conv2", width, width, 3)
            if inputs != width or (stage and not block):
                sizes |= _conv(f"{name}.shortcut", inputs, width, 1)
            inputs, number = width, number + 1
    return sizes | _norm("norm", inputs) | _linear("head", inputs, shape.classes)


def _vit_sizes(spec: TorchVitSpec, shape: ImageShape) -> dict[str, tuple[int, ...]]:
    hidden = spec.hidden
    patches = (shape.height // spec.patch) * (shape.width // spec.patch)
    sizes = _conv("stem", shape.channels, hidden, spec.patch) | {"positions": (patches, hidden)}
    for number in range(spec.layers):
        name = f"blocks.{number}"
        sizes |= _norm(f"{name}.norm1", hidden) | _linear(f"{name}.qkv", hidden, 3 * hidden)
        sizes |= _linear(f"{name}.out", hidden, hidden) | _norm(f"{name}.norm2", hidden)
        sizes |= _linear(f"{name}.up", hidden, 4 * hidden)
        sizes |= _linear(f"{name}.down", 4 * hidden, hidden)
    return sizes | _norm("norm", hidden) | _linear("head", hidden, shape.classes)


def _conv(name: str, inputs: int, outputs: int, side: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs, side, side), f"{name}.bias": (outputs,)}


def _linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _base_weights(folder: str, weights: Weights) -> Weights:
    """Return the weights of an exported network, without its last layer."""
    import onnx
    from onnx import numpy_helper

    file = Path(folder) / ONNX
    if not file.is_file():
        fix = f"name a bundle folder of this trainer, with its {ONNX}"
        raise InputError.one("train: base", f"there is no {file}", fix)
    saved = {
        item.name: numpy_helper.to_array(item) for item in onnx.load(str(file)).graph.initializer
    }
    base: Weights = {}
    for name, array in weights.items():
        if name.startswith(HEAD):
            continue
        if name not in saved or saved[name].shape != array.shape:
            given = list(saved[name].shape) if name in saved else "no such weight"
            what = f"{name} is {list(array.shape)} here, and there {given}"
            raise InputError.one(
                "train: base", what, "use the same network and image size as the base"
            )
        base[name] = np.array(saved[name], dtype=np.float32)
    return base


def image_flop(spec: TorchCnnSpec | TorchVitSpec, shape: ImageShape, images: int) -> float:
    """Return the GEMM and convolution FLOPs of a batch: forward, and twice that backward."""
    if isinstance(spec, TorchVitSpec):
        patches = (shape.height // spec.patch) * (shape.width // spec.patch)
        matrices = 12 * spec.hidden**2 * spec.layers  # qkv 3, out 1, up 4, down 4
        stem = shape.channels * spec.patch**2 * spec.hidden
        attention = 2 * patches * spec.hidden * spec.layers  # scores and values
        return 3.0 * images * 2.0 * patches * (matrices + stem + attention)
    total, height, width = 0.0, shape.height, shape.width
    for name, size in _cnn_sizes(spec, shape).items():
        if len(size) != 4:
            continue
        # The second block of a stage and those after it keep the size.
        number = int(name.split(".")[1]) if name.startswith("blocks") else 0
        halved = 2 ** (number // spec.blocks)
        pixels = math.ceil(height / halved) * math.ceil(width / halved)
        total += 2.0 * math.prod(size) * pixels
    return 3.0 * images * total


def augmented(
    images: npt.NDArray[np.float32],
    kinds: tuple[Augmentation, ...],
    key: tuple[int, Array],
    channels_first: bool,
) -> npt.NDArray[np.float32]:
    """Return images changed at random, as a function of the seed and of the rows of the batch."""
    if not kinds:
        return images
    seed, rows = key
    random = np.random.Generator(np.random.Philox(key=[seed, zlib.crc32(rows.tobytes())]))
    flat = images.reshape(-1, *images.shape[-3:]).copy()
    across, down = (3, 2) if channels_first else (2, 1)
    if "flip" in kinds:
        chosen = random.random(len(flat)) < 0.5
        flat[chosen] = np.flip(flat[chosen], axis=across)
    if "shift" in kinds:
        for axis in (across, down):
            limit = flat.shape[axis] // 8
            steps = random.integers(-limit, limit + 1, size=len(flat))
            for step in np.unique(steps[steps != 0]):
                chosen = steps == step
                flat[chosen] = _shifted(flat[chosen], int(step), axis)
    return flat.reshape(images.shape)


def _shifted(images: npt.NDArray[np.float32], step: int, axis: int) -> npt.NDArray[np.float32]:
    """Return images moved along an axis; the edge is repeated."""
    size = images.shape[axis]
    return np.take(images, np.clip(np.arange(size) - step, 0, size - 1), axis=axis)

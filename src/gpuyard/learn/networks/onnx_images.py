"""Export image networks as ONNX graphs; initializers keep the names of the weights."""

from __future__ import annotations

import math
import typing
from pathlib import Path

import numpy as np

from gpuyard.learn.networks.images import EPSILON, ImageShape, image_shape
from gpuyard.learn.networks.onnx_graph import PIXELS, save_graph
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import Exported, ImageData
from gpuyard.learn.trainers.torch_images.image_settings import TorchCnnSpec, TorchVitSpec


class _Graph:
    # Nodes in order; every method adds one layer and returns the name of its output.
    def __init__(self, weights: Weights) -> None:
        from onnx import numpy_helper

        self.nodes: list[typing.Any] = []
        self.initializers = [
            numpy_helper.from_array(np.ascontiguousarray(array), name)
            for name, array in weights.items()
        ]
        self.names = {item.name for item in self.initializers}

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        from onnx import helper

        output = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, values: object, dtype: type = np.int64) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.array(values, dtype=dtype), name))
        return name

    def conv(self, x: str, name: str, stride: int = 1, padding: int = 0) -> str:
        return self.add(
            "Conv",
            x,
            f"{name}.weight",
            f"{name}.bias",
            strides=[stride, stride],
            pads=[padding] * 4,
        )

    def per_channel(self, x: str, kind: str, name: str) -> str:
        shape = self.constant([-1, 1, 1])
        return self.add(kind, x, self.add("Reshape", name, shape))

    def linear(self, x: str, name: str) -> str:
        matrix = self.add("Transpose", f"{name}.weight", perm=[1, 0])
        return self.add("Add", self.add("MatMul", x, matrix), f"{name}.bias")

    def image_norm(self, x: str, name: str, channels: int, size: tuple[int, int]) -> str:
        """Normalise over the whole image, then scale and shift per channel."""
        one, zero = self.constant([1.0], np.float32), self.constant([0.0], np.float32)
        flat = self.add("Reshape", x, self.constant([0, 1, -1]))
        flat = self.add("InstanceNormalization", flat, one, zero, epsilon=EPSILON)
        x = self.add("Reshape", flat, self.constant([0, channels, *size]))
        x = self.per_channel(x, "Mul", f"{name}.weight")
        return self.per_channel(x, "Add", f"{name}.bias")

    def token_norm(self, x: str, name: str) -> str:
        return self.add(
            "LayerNormalization", x, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=EPSILON
        )

    def gelu(self, x: str) -> str:
        root, one = self.constant(math.sqrt(2.0), np.float32), self.constant(1.0, np.float32)
        share = self.add("Add", self.add("Erf", self.add("Div", x, root)), one)
        return self.add("Mul", self.add("Mul", x, share), self.constant(0.5, np.float32))


def export_images(
    spec: TorchCnnSpec | TorchVitSpec,
    weights: Weights,
    data: ImageData,
    folder: Path,
    framework: str,
) -> Exported:
    """Write model.onnx of a network on images."""
    from onnx import helper

    graph, shape = _Graph(weights), image_shape(data)
    x = PIXELS
    if not shape.channels_first:
        x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    x = graph.per_channel(graph.per_channel(x, "Sub", "pixel_mean"), "Mul", "pixel_scale")
    x = _cnn(graph, x, spec, shape) if isinstance(spec, TorchCnnSpec) else _vit(graph, x, spec)
    logits = graph.linear(x, "head")
    graph.nodes.append(helper.make_node("Softmax", [logits], ["probabilities"], axis=1))
    name = "cnn" if isinstance(spec, TorchCnnSpec) else "vit"
    return save_graph(name, graph.nodes, graph.initializers, data, folder, framework)


def _cnn(graph: _Graph, x: str, spec: TorchCnnSpec, shape: ImageShape) -> str:
    x, size, channels = graph.conv(x, "stem", padding=1), (shape.height, shape.width), spec.channels
    for number in range(spec.stages * spec.blocks):
        name, (stage, block) = f"blocks.{number}", divmod(number, spec.blocks)
        stride, width = 2 if stage and not block else 1, spec.channels * 2**stage
        y = graph.add("Relu", graph.image_norm(x, f"{name}.norm1", channels, size))
        y = graph.conv(y, f"{name}.conv1", stride, padding=1)
        size = (-(-size[0] // stride), -(-size[1] // stride))
        y = graph.add("Relu", graph.image_norm(y, f"{name}.norm2", width, size))
        y = graph.conv(y, f"{name}.conv2", padding=1)
        if f"{name}.shortcut.weight" in graph.names:
            x = graph.conv(x, f"{name}.shortcut", stride)
        x, channels = graph.add("Add", y, x), width
    x = graph.add("Relu", graph.image_norm(x, "norm", channels, size))
    return graph.add("ReduceMean", x, axes=[2, 3], keepdims=0)


def _vit(graph: _Graph, x: str, spec: TorchVitSpec) -> str:
    width = spec.hidden // spec.heads
    x = graph.conv(x, "stem", spec.patch)
    x = graph.add("Reshape", x, graph.constant([0, spec.hidden, -1]))
    x = graph.add("Add", graph.add("Transpose", x, perm=[0, 2, 1]), "positions")
    scale = graph.constant(1.0 / math.sqrt(width), np.float32)
    for number in range(spec.layers):
        name = f"blocks.{number}"
        y = graph.linear(graph.token_norm(x, f"{name}.norm1"), f"{name}.qkv")
        y = graph.add("Reshape", y, graph.constant([0, 0, 3, spec.heads, width]))
        y = graph.add("Transpose", y, perm=[2, 0, 3, 1, 4])
        q, k, v = (graph.add("Gather", y, graph.constant(part), axis=0) for part in range(3))
        scores = graph.add("MatMul", q, graph.add("Transpose", k, perm=[0, 1, 3, 2]))
        seen = graph.add("Softmax", graph.add("Mul", scores, scale), axis=-1)
        seen = graph.add("Transpose", graph.add("MatMul", seen, v), perm=[0, 2, 1, 3])
        seen = graph.add("Reshape", seen, graph.constant([0, 0, spec.hidden]))
        x = graph.add("Add", x, graph.linear(seen, f"{name}.out"))
        y = graph.linear(graph.token_norm(x, f"{name}.norm2"), f"{name}.up")
        x = graph.add("Add", x, graph.linear(graph.gelu(y), f"{name}.down"))
    return graph.add("ReduceMean", graph.token_norm(x, "norm"), axes=[1], keepdims=0)

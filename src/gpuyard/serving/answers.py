"""Answers as they are written: JSON with what never changes written once, or JSON and bytes behind it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gpuyard.serving.batches import Slice
from gpuyard.serving.engine import Output
from gpuyard.serving.tensors import to_binary

__all__ = ["HEAD_LENGTH", "JSON", "Writer", "error_body"]

JSON = ("content-type", "application/json")
HEAD_LENGTH = "inference-header-content-length"
_encode = msgspec.json.Encoder().encode


def error_body(message: str) -> bytes:
    """An error as the protocol writes it."""
    return _encode({"error": message})


class Writer:
    """Writes the answers of one version."""

    __slots__ = ("_outputs", "_prefix", "_single", "_tensors", "_widths")

    def __init__(self, model: str, version: str, outputs: Sequence[Output]) -> None:
        self._prefix = b'{"model_name":%b,"model_version":%b' % (_encode(model), _encode(version))
        self._outputs = {output.name: number for number, output in enumerate(outputs)}
        self._tensors = tuple(outputs)
        self._widths = tuple(output.width for output in outputs)
        # the whole answer to one row but for its numbers
        self._single = tuple(
            (b"," if number else self._prefix + b',"outputs":[') + _head(output, 1) + b',"data":'
            for number, output in enumerate(outputs)
        )

    def plain(self, found: Slice) -> bytes:
        """All outputs in JSON."""
        start = found.start
        if found.size != 1:
            return self.json(found, "", tuple(self._outputs))
        parts: list[bytes] = []
        for head, values, width in zip(self._single, found.outputs, self._widths, strict=True):
            parts += (head, _encode(values[start * width : (start + 1) * width]), b"}")
        parts.append(b"]}")
        return b"".join(parts)

    def json(self, found: Slice, ident: str, names: Sequence[str]) -> bytes:
        """The named outputs in JSON."""
        parts = [self._start(ident)]
        for position, name in enumerate(names):
            number = self._outputs[name]
            parts += (b"," if position else b"", _head(self._tensors[number], found.size))
            parts += (b',"data":', _encode(self._values(found, number)), b"}")
        parts.append(b"]}")
        return b"".join(parts)

    def mixed(self, found: Slice, ident: str, wanted: Sequence[tuple[str, bool]]) -> tuple[bytes, int]:
        """The named outputs, some as bytes behind the JSON; also the length of the JSON."""
        parts, tail = [self._start(ident)], []
        for position, (name, binary) in enumerate(wanted):
            number = self._outputs[name]
            output = self._tensors[number]
            parts += (b"," if position else b"", _head(output, found.size))
            if binary:
                dtype = object if output.datatype == "BYTES" else None
                data = to_binary(output.datatype, np.asarray(self._values(found, number), dtype))
                tail.append(data)
                parts.append(b',"parameters":{"binary_data_size":%d}}' % len(data))
            else:
                parts += (b',"data":', _encode(self._values(found, number)), b"}")
        parts.append(b"]}")
        head = b"".join(parts)
        return b"".join((head, *tail)), len(head)

    def _start(self, ident: str) -> bytes:
        """Up to the first output."""
        return self._prefix + (b',"id":' + _encode(ident) if ident else b"") + b',"outputs":['

    def _values(self, found: Slice, number: int) -> Sequence[object] | np.ndarray:
        """A request's values of one output, flat."""
        width = self._widths[number]
        return found.outputs[number][found.start * width : (found.start + found.size) * width]


def _head(output: Output, count: int) -> bytes:
    """An output up to its data."""
    shape = _encode([count, *output.tail])
    return b'{"name":%b,"datatype":%b,"shape":%b' % (_encode(output.name), _encode(output.datatype), shape)

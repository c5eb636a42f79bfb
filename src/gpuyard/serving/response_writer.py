"""Encode inference responses as JSON, optionally followed by binary tensor data."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from gpuyard.serving.batcher import BatchSlice
from gpuyard.serving.onnx_model import Output
from gpuyard.serving.tensors import to_binary

JSON = ("content-type", "application/json")
HEAD_LENGTH = "inference-header-content-length"
_encode = msgspec.json.Encoder().encode


def error_body(message: str) -> bytes:
    """Return an error in the protocol's JSON form."""
    return _encode({"error": message})


class ResponseWriter:
    """Response encoder of one version; the constant parts are encoded once."""

    __slots__ = ("_outputs", "_prefix", "_single", "_tensors", "_widths")

    def __init__(self, model: str, version: str, outputs: Sequence[Output]) -> None:
        self._prefix = b'{"model_name":%b,"model_version":%b' % (_encode(model), _encode(version))
        self._outputs = {output.name: number for number, output in enumerate(outputs)}
        self._tensors = tuple(outputs)
        self._widths = tuple(output.width for output in outputs)
        # The response to a single row, without its numbers.
        self._single = tuple(
            (b"," if number else self._prefix + b',"outputs":[') + _head(output, 1) + b',"data":'
            for number, output in enumerate(outputs)
        )

    def plain(self, batch_slice: BatchSlice) -> bytes:
        """Encode all outputs as JSON."""
        start = batch_slice.start
        if batch_slice.size != 1:
            return self.json(batch_slice, "", tuple(self._outputs))
        parts: list[bytes] = []
        for head, values, width in zip(
            self._single, batch_slice.outputs, self._widths, strict=True
        ):
            parts += (head, _encode(values[start * width : (start + 1) * width]), b"}")
        parts.append(b"]}")
        return b"".join(parts)

    def json(self, batch_slice: BatchSlice, request_id: str, names: Sequence[str]) -> bytes:
        parts = [self._start(request_id)]
        for position, name in enumerate(names):
            number = self._outputs[name]
            parts += (b"," if position else b"", _head(self._tensors[number], batch_slice.size))
            parts += (b',"data":', _encode(self._values(batch_slice, number)), b"}")
        parts.append(b"]}")
        return b"".join(parts)

    def mixed(
        self, batch_slice: BatchSlice, request_id: str, wanted: Sequence[tuple[str, bool]]
    ) -> tuple[bytes, int]:
        """Encode the named outputs, some as binary data. Also return the length of the JSON."""
        parts, tail = [self._start(request_id)], []
        for position, (name, binary) in enumerate(wanted):
            number = self._outputs[name]
            output = self._tensors[number]
            parts += (b"," if position else b"", _head(output, batch_slice.size))
            if binary:
                dtype = object if output.datatype == "BYTES" else None
                data = to_binary(
                    output.datatype, np.asarray(self._values(batch_slice, number), dtype)
                )
                tail.append(data)
                parts.append(b',"parameters":{"binary_data_size":%d}}' % len(data))
            else:
                parts += (b',"data":', _encode(self._values(batch_slice, number)), b"}")
        parts.append(b"]}")
        head = b"".join(parts)
        return b"".join((head, *tail)), len(head)

    def _start(self, request_id: str) -> bytes:
        return (
            self._prefix
            + (b',"id":' + _encode(request_id) if request_id else b"")
            + b',"outputs":['
        )

    def _values(self, batch_slice: BatchSlice, number: int) -> Sequence[object] | np.ndarray:
        width = self._widths[number]
        return batch_slice.outputs[number][
            batch_slice.start * width : (batch_slice.start + batch_slice.size) * width
        ]


def _head(output: Output, count: int) -> bytes:
    shape = _encode([count, *output.tail])
    return b'{"name":%b,"datatype":%b,"shape":%b' % (
        _encode(output.name),
        _encode(output.datatype),
        shape,
    )

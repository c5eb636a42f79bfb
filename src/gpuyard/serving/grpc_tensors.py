"""Tensors of gRPC calls: typed contents and raw bytes, to and from the values of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gpuyard.serving.onnx_model import Output
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.request_parser import InferenceRequest, RequestTensor, check_tensor
from gpuyard.serving.tensors import BYTES, check_range, from_binary, to_binary
from gpuyard.serving.version import Version

# The field of InferTensorContents for a datatype; FP16 has none and must be raw.
_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
    "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents",
    "UINT16": "uint_contents", "UINT32": "uint_contents", "UINT64": "uint64_contents",
    "FP32": "fp32_contents", "FP64": "fp64_contents", BYTES: "bytes_contents",
}  # fmt: skip


def infer_request(version: Version, request: Any) -> InferenceRequest:
    """Return the request as the version takes it. Raise RequestError if it does not fit."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(400, f"{len(raw)} raw_input_contents for {len(request.inputs)} inputs")
    tensors: list[RequestTensor] = []
    values: dict[str, list[object] | np.ndarray] = {}
    for number, tensor in enumerate(request.inputs):
        name, datatype, shape = tensor.name, tensor.datatype, list(tensor.shape)
        if name in values:
            raise RequestError(400, f'input "{name}" is duplicated')
        check_tensor(name, datatype, shape)
        if raw and tensor.HasField("contents"):
            raise RequestError(400, f'input "{name}" has contents as well as raw_input_contents')
        values[name] = (
            from_binary(name, datatype, shape, memoryview(raw[number]))
            if raw
            else _contents(name, datatype, shape, tensor.contents)
        )
        tensors.append(RequestTensor(name=name, shape=shape, datatype=datatype))
    outputs = [output.name for output in request.outputs]
    version.parser.check_outputs(outputs)
    return version.parser.from_tensors(
        tensors, values, request.id, tuple((name, False) for name in outputs)
    )


def _contents(name: str, datatype: str, shape: Sequence[int], contents: Any) -> list[object]:
    field = _CONTENTS.get(datatype)
    if field is None:
        raise RequestError(400, f'input "{name}": send {datatype} in raw_input_contents')
    values: list[object] = list(getattr(contents, field))
    count = int(np.prod(shape, dtype=object))
    if len(values) != count:
        what = f"{len(values)} values in {field} for shape {list(shape)}"
        raise RequestError(400, f'input "{name}": {what}')
    if datatype == BYTES:
        try:
            return [str(value, "utf-8") for value in values]  # type: ignore[call-overload]
        except UnicodeDecodeError:
            raise RequestError(400, f'input "{name}": an element is not UTF-8') from None
    if field in ("int_contents", "uint_contents"):
        check_range(name, datatype, values)
    return values


def add_output(
    response: Any,
    output: Output,
    shape: Sequence[int],
    values: Sequence[object] | np.ndarray,
    *,
    raw: bool,
) -> None:
    """Add an output tensor to the response."""
    tensor = response.outputs.add(name=output.name, datatype=output.datatype, shape=shape)
    field = _CONTENTS.get(output.datatype)
    if raw or field is None:
        dtype = object if output.datatype == BYTES else None
        response.raw_output_contents.append(
            to_binary(output.datatype, np.asarray(values, dtype=dtype))
        )
    elif output.datatype == BYTES:
        tensor.contents.bytes_contents.extend(str(value).encode() for value in values)
    else:
        getattr(tensor.contents, field).extend(values)


def logged_request(request: Any) -> bytes:
    """Return the request as JSON, as REST has it; raw tensors are left out."""
    if request.raw_input_contents:
        return b""
    inputs = [
        {
            "name": tensor.name,
            "shape": list(tensor.shape),
            "datatype": tensor.datatype,
            "data": [
                value.decode(errors="replace") if isinstance(value, bytes) else value
                for value in getattr(tensor.contents, _CONTENTS.get(tensor.datatype, ""), ())
            ],
        }
        for tensor in request.inputs
    ]
    return msgspec.json.encode({"id": request.id, "inputs": inputs})

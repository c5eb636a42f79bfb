"""One loaded model version: transform, batcher, metrics and responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import numpy as np

from gpuyard.datasets.transform import code_refused
from gpuyard.datasets.user_code import CodeError
from gpuyard.document.encode import load_json_file
from gpuyard.errors import InputError
from gpuyard.registry.bundle import ONNX, PROCESSING, TRANSFORM, ModelBundle
from gpuyard.registry.feature_profile import PROFILE, FeatureProfile
from gpuyard.serving.batcher import INLINE_S, Batcher, BatchSlice, QueuedRequest
from gpuyard.serving.drift import DriftWindow
from gpuyard.serving.onnx_model import LoadedModel, Output, TensorModel
from gpuyard.serving.processed_model import ProcessedModel
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.request_parser import Columns, InferenceRequest, RequestParser
from gpuyard.serving.response_writer import HEAD_LENGTH, JSON, ResponseWriter
from gpuyard.serving.spec import MATRIX, BatchSpec
from gpuyard.serving.tensor_requests import TensorRequestParser
from gpuyard.serving.tensors import BYTES, datatype_of
from gpuyard.serving.version_metrics import MetricsSnapshot, VersionMetrics
from gpuyard.serving.version_sources import ResolvedVersion

RawResponse = tuple[int, list[tuple[str, str]], bytes]  # status, headers, body
_JSON_HEADERS = [JSON]
LABEL, CLASS = "label", "class"  # outputs: the index of a class, and its name
_NUMBERS = ("Int", "UInt", "Float")


class Answer(NamedTuple):
    """The outputs for one request."""

    request: InferenceRequest | None  # None: all outputs, as JSON
    part: BatchSlice


class InputColumn(Protocol):
    """An input column of a transform."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...


class Transform(Protocol):
    """The fitted transform in front of a model."""

    @property
    def inputs(self) -> Sequence[InputColumn]: ...
    @property
    def outputs(self) -> Sequence[str]: ...

    def matrix(
        self,
        columns: Mapping[str, Sequence[object] | np.ndarray],
        requests: Sequence[int] = (),
    ) -> np.ndarray:
        """Return the model's input matrix for the rows of requests with these sizes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedVersion:
    """The parts of a version, loaded in a thread while the previous version still serves."""

    resolved: ResolvedVersion
    model: TensorModel
    class_index: int | None  # position of the output that indexes the classes
    transform: Transform | None
    columns: tuple[tuple[str, str], ...]  # name, datatype
    inline: bool
    profile: FeatureProfile | None  # of the training features


def load_version(
    resolved: ResolvedVersion,
    transform: Transform | None,
    batch: BatchSpec,
    *,
    allow_code: bool = False,
) -> LoadedVersion:
    """Load and warm up a version. Raise InputError if its parts do not match."""
    model = load_model(resolved.folder, resolved.bundle, allow_code=allow_code)
    columns: tuple[tuple[str, str], ...] = ()
    if transform is not None:
        columns = tuple((column.name, _datatype(column.dtype)) for column in transform.inputs)
        if not model.is_matrix or len(transform.outputs) != model.width:
            what = f"returns {len(transform.outputs)} features; the model takes {model.width}"
            raise InputError.one(str(resolved.folder / TRANSFORM), what, "export the model again")
    elif {item.name for item in resolved.bundle.inputs} != {item.name for item in model.inputs}:
        raise InputError.one(
            str(resolved.folder),
            f"takes columns but has no {TRANSFORM}",
            "export the transform, or describe the inputs of the model",
        )
    inline = _seconds(resolved, model, batch.rows) <= INLINE_S
    return LoadedVersion(
        resolved=resolved,
        model=model,
        class_index=_class_index(resolved, model.outputs),
        transform=transform,
        columns=columns,
        inline=inline,
        profile=_profile(resolved, model.width),
    )


def load_model(folder: Path, bundle: ModelBundle, *, allow_code: bool) -> TensorModel:
    """Load the model of a bundle. Raise InputError for code of its author without `allow_code`."""
    if bundle.processing is None:
        return LoadedModel(folder / ONNX, [output.name for output in bundle.outputs])
    if not allow_code:
        raise code_refused(str(folder / PROCESSING), "its author's code processes requests")
    return ProcessedModel(folder, bundle)


class Version:
    """A version that serves requests; created on the event loop."""

    __slots__ = (
        "_class_index",
        "_classes",
        "_model",
        "_names",
        "_takes_rows",
        "_transform",
        "batcher",
        "columns",
        "drift",
        "metrics",
        "outputs",
        "parser",
        "resolved",
        "writer",
    )

    def __init__(self, loaded: LoadedVersion, batch: BatchSpec, pool: ThreadPoolExecutor) -> None:
        self.resolved = loaded.resolved
        self._model = loaded.model
        self._transform = loaded.transform
        self.columns = loaded.columns
        self._names = tuple(name for name, _ in loaded.columns)
        self._class_index, self._classes = loaded.class_index, loaded.resolved.bundle.classes
        outputs = loaded.model.outputs
        if loaded.class_index is not None:
            outputs = (*outputs, Output(name=CLASS, datatype=BYTES))
        self.outputs = outputs  # of the model, and the class names
        names = [output.name for output in outputs]
        # Rows of numbers named x, and columns, have a fast path; any other signature is general.
        self._takes_rows = loaded.transform is not None or (
            loaded.model.is_matrix and loaded.model.inputs[0].name == MATRIX
        )
        self.parser: RequestParser = (
            RequestParser(loaded.model.width, dict(loaded.columns), names)
            if self._takes_rows
            else TensorRequestParser(loaded.model.inputs, names)
        )
        self.writer = ResponseWriter(loaded.resolved.name, loaded.resolved.version, outputs)
        self.drift = None if loaded.profile is None else DriftWindow(loaded.profile)
        self.metrics = VersionMetrics(loaded.resolved.name, loaded.resolved.version)
        self.batcher = Batcher(self.compute, batch, pool, inline=loaded.inline)

    @property
    def label(self) -> tuple[str, str]:
        return self.resolved.name, self.resolved.version

    @property
    def profile(self) -> FeatureProfile | None:
        """Distribution of the features in training, if the bundle has it."""
        return None if self.drift is None else self.drift.profile

    @property
    def inputs(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """Name, datatype and shape of the inputs that a request sends."""
        if self.columns:
            return tuple((name, datatype, (-1,)) for name, datatype in self.columns)
        return tuple((item.name, item.datatype, (-1, *item.tail)) for item in self._model.inputs)

    def snapshot(self) -> MetricsSnapshot:
        return self.metrics.snapshot(self.batcher.batches)

    async def infer(self, body: bytes, head_length: str | None) -> Answer:
        """Return the outputs for a request body. Raise RequestError or ModelError on failure."""
        parsed = (
            self.parser.read(body) if head_length is None else self._read_binary(body, head_length)
        )
        if isinstance(parsed, tuple):
            part = await self.batcher.submit(parsed[0], parsed[1])
            self.metrics.rows += parsed[1]
            return Answer(None, part)
        return await self.infer_request(parsed)

    async def infer_request(self, request: InferenceRequest) -> Answer:
        """Return the outputs for a request that `parser` has checked."""
        part = await self.batcher.submit(request.rows, request.count)
        self.metrics.rows += request.count
        return Answer(request, part)

    def _read_binary(self, body: bytes, head_length: str) -> InferenceRequest:
        if not head_length.isascii() or not head_length.isdigit() or int(head_length) > len(body):
            raise RequestError(400, f"{HEAD_LENGTH} is not the length of the JSON in the body")
        view = memoryview(body)
        return self.parser.read_any(view[: int(head_length)], view[int(head_length) :])

    def write(self, answer: Answer) -> RawResponse:
        """Return the HTTP response with the outputs that the request wants."""
        request, part = answer
        if request is None:
            return 200, _JSON_HEADERS, self.writer.plain(part)
        if not any(binary for _, binary in request.outputs):
            names = [name for name, _ in request.outputs] or [
                output.name for output in self.outputs
            ]
            return 200, _JSON_HEADERS, self.writer.json(part, request.id, names)
        body, length = self.writer.mixed(part, request.id, request.outputs)
        return 200, [("content-type", "application/octet-stream"), (HEAD_LENGTH, str(length))], body

    def output_values(
        self, part: BatchSlice
    ) -> Iterator[tuple[Output, Sequence[object] | np.ndarray]]:
        """Yield every output with its values for one request, flat."""
        for output, values in zip(self.outputs, part.outputs, strict=True):
            start, end = part.start * output.width, (part.start + part.size) * output.width
            yield output, values[start:end]

    def compute(self, requests: Sequence[QueuedRequest]) -> list[BatchSlice | Exception]:
        """Run one batch and return a slice of the outputs per request."""
        if not self._takes_rows:
            return self._slices(self._model.run(*_tensors(requests)), requests)
        x = self._matrix(requests)
        try:
            arrays = self._model.run(x)
        except ModelError:
            if np.isfinite(x).all():
                raise
            raise RequestError(
                400, "the model does not accept missing or non-finite values"
            ) from None
        if self.drift is not None:
            self.drift.add(x)
        return self._slices(arrays, requests)

    def _slices(
        self, arrays: Sequence[np.ndarray], requests: Sequence[QueuedRequest]
    ) -> list[BatchSlice | Exception]:
        outputs = [array.ravel().tolist() for array in arrays]
        if self._class_index is not None:
            outputs.append(self._class_names(outputs[self._class_index]))
        slices: list[BatchSlice | Exception] = []
        start = 0
        for request in requests:
            slices.append(BatchSlice(outputs, start, request.size))
            start += request.size
        return slices

    def _class_names(self, indexes: Sequence[int]) -> list[str]:
        classes = self._classes
        return [classes[index] if 0 <= index < len(classes) else str(index) for index in indexes]

    def _matrix(self, requests: Sequence[QueuedRequest]) -> np.ndarray:
        width = self._model.width
        if all(type(request.rows) is list for request in requests):
            flat = (
                requests[0].rows
                if len(requests) == 1
                else list(chain.from_iterable(request.rows for request in requests))
            )
            x = np.array(flat, np.float32).reshape(-1, width)
            return _finite(x)
        column_requests = [request for request in requests if isinstance(request.rows, tuple)]
        transformed = self._transformed(column_requests) if column_requests else None
        if transformed is not None and len(column_requests) == len(requests):
            return transformed
        parts, start = [], 0
        for request in requests:
            if isinstance(request.rows, tuple):
                assert transformed is not None
                parts.append(transformed[start : start + request.size])
                start += request.size
            else:
                parts.append(_finite(np.asarray(request.rows, np.float32).reshape(-1, width)))
        return np.concatenate(parts)

    def _transformed(self, requests: Sequence[QueuedRequest]) -> np.ndarray:
        assert self._transform is not None
        columns: list[Columns] = [
            request.rows for request in requests if isinstance(request.rows, tuple)
        ]
        if len(columns) == 1:
            joined: Columns = columns[0]
        else:
            joined = tuple(_joined(parts) for parts in zip(*columns, strict=True))
        try:
            with np.errstate(over="ignore"):
                x = self._transform.matrix(
                    dict(zip(self._names, joined, strict=True)),
                    [request.size for request in requests],
                )
        except CodeError as error:  # of a Python step: not the request's fault
            raise ModelError(f"{error.problems[0].where}: {error.problems[0].what}") from None
        except InputError as error:
            raise RequestError(
                400, "; ".join(f"{item.where}: {item.what}" for item in error.problems)
            ) from None
        if np.isinf(x).any():  # NaN is a missing value, which some models take
            row, feature = (int(place[0]) for place in np.nonzero(np.isinf(x)))
            name = self._transform.outputs[feature]
            raise RequestError(400, f'row {row}: feature "{name}" is too large for FP32')
        return x


# Trainers export a class as its index, for the types of ONNX; clients want the name as well.
def _class_index(resolved: ResolvedVersion, outputs: Sequence[Output]) -> int | None:
    if not resolved.bundle.classes or any(output.name == CLASS for output in outputs):
        return None
    return next(
        (
            number
            for number, output in enumerate(outputs)
            if output.name == LABEL and output.width == 1 and output.datatype.startswith("INT")
        ),
        None,
    )


def _profile(resolved: ResolvedVersion, width: int) -> FeatureProfile | None:
    path = resolved.folder / PROFILE
    if not path.is_file():
        return None
    profile = load_json_file(path, FeatureProfile)
    return profile if len(profile.features) == width else None


def _tensors(requests: Sequence[QueuedRequest]) -> list[np.ndarray]:
    """Return the inputs of a batch, the rows of all requests joined."""
    rows = [cast(tuple[np.ndarray, ...], request.rows) for request in requests]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


def _seconds(resolved: ResolvedVersion, model: TensorModel, rows: int) -> float:
    try:
        return model.seconds(rows)
    except ModelError as error:
        raise InputError.one(
            str(resolved.folder / ONNX), str(error), "export the model again"
        ) from error


def _datatype(dtype: str) -> str:
    if dtype == "Boolean":
        return "BOOL"
    return datatype_of(dtype.lower()) if dtype.startswith(_NUMBERS) else BYTES


def _joined(parts: Sequence[Sequence[object] | np.ndarray]) -> Sequence[object]:
    return [
        value
        for part in parts
        for value in (part.tolist() if isinstance(part, np.ndarray) else part)
    ]


def _finite(x: np.ndarray) -> np.ndarray:
    if not np.isfinite(x).all():
        raise RequestError(400, f'input "{MATRIX}": a value is NaN or too large for FP32')
    return x

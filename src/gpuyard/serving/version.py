"""One version of a model, loaded: what it takes, its queue, its counts, and its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np

from gpuyard.errors import InputError
from gpuyard.registry import ONNX, TRANSFORM
from gpuyard.serving.answers import HEAD_LENGTH, JSON, Writer
from gpuyard.serving.asks import MATRIX, Ask, Columns, Reader
from gpuyard.serving.batches import INLINE_S, Batcher, Slice, Work
from gpuyard.serving.engine import Engine, Output
from gpuyard.serving.failures import ModelError, RequestError
from gpuyard.serving.meter import Meter, Reading
from gpuyard.serving.sources import Found
from gpuyard.serving.spec import BatchSpec
from gpuyard.serving.tensors import BYTES, datatype_of

__all__ = ["Answer", "Loaded", "Transform", "Version", "load_version"]

Answer = tuple[int, list[tuple[str, str]], bytes]  # status, headers, body
_JSON_HEADERS = [JSON]
_NUMBERS = ("Int", "UInt", "Float")


class InputColumn(Protocol):
    """A column that a transform takes."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...


class Transform(Protocol):
    """The fitted transform that stands in front of a model."""

    @property
    def inputs(self) -> Sequence[InputColumn]: ...
    @property
    def outputs(self) -> Sequence[str]: ...

    def matrix(self, columns: Mapping[str, Sequence[object] | np.ndarray]) -> np.ndarray:
        """The rows as the model takes them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A version's parts, made in a thread while the one before it still answers."""

    found: Found
    engine: Engine
    transform: Transform | None
    columns: tuple[tuple[str, str], ...]  # name, datatype
    inline: bool


def load_version(found: Found, transform: Transform | None, batch: BatchSpec) -> Loaded:
    """The parts of a version, warmed up; InputError where they do not fit together."""
    engine = Engine(found.folder / ONNX, [output.name for output in found.bundle.outputs])
    columns: tuple[tuple[str, str], ...] = ()
    if transform is not None:
        columns = tuple((column.name, _datatype(column.dtype)) for column in transform.inputs)
        if len(transform.outputs) != engine.width:
            what = f"gives {len(transform.outputs)} features, and the model takes {engine.width}"
            raise InputError.one(str(found.folder / TRANSFORM), what, "export the model again")
    elif [tensor.name for tensor in found.bundle.inputs] != [MATRIX]:
        raise InputError.one(
            str(found.folder), f"takes columns and has no {TRANSFORM}", f"export the transform, or take {MATRIX} alone"
        )
    inline = _seconds(found, engine, batch.rows) <= INLINE_S
    return Loaded(found=found, engine=engine, transform=transform, columns=columns, inline=inline)


class Version:
    """A version that answers; made on the event loop."""

    __slots__ = ("_engine", "_names", "_reader", "_transform", "_writer", "batcher", "columns", "found", "meter")

    def __init__(self, loaded: Loaded, batch: BatchSpec, pool: ThreadPoolExecutor) -> None:
        self.found = loaded.found
        self._engine = loaded.engine
        self._transform = loaded.transform
        self.columns = loaded.columns
        self._names = tuple(name for name, _ in loaded.columns)
        outputs = loaded.engine.outputs
        self._reader = Reader(loaded.engine.width, dict(loaded.columns), [output.name for output in outputs])
        self._writer = Writer(loaded.found.name, loaded.found.version, outputs)
        self.meter = Meter(loaded.found.name, loaded.found.version)
        self.batcher = Batcher(self.compute, batch, pool, inline=loaded.inline)

    @property
    def label(self) -> tuple[str, str]:
        """Model and version."""
        return self.found.name, self.found.version

    @property
    def width(self) -> int:
        """Values of a row, as a matrix."""
        return self._engine.width

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What comes out."""
        return self._engine.outputs

    def reading(self) -> Reading:
        """Its counts now."""
        return self.meter.reading(self.batcher.batches)

    async def answer(self, body: bytes, head_length: str | None) -> Answer:
        """The answer to a request's body; RequestError or ModelError where there is none."""
        batcher = self.batcher
        read = self._reader.read(body) if head_length is None else self._read_binary(body, head_length)
        if isinstance(read, tuple):
            found = await batcher.submit(read[0], read[1])
            self.meter.rows += read[1]
            return 200, _JSON_HEADERS, self._writer.plain(found)
        found = await batcher.submit(read.rows, read.count)
        self.meter.rows += read.count
        return self._write(read, found)

    def _read_binary(self, body: bytes, head_length: str) -> Ask:
        """A request with bytes behind its JSON."""
        if not head_length.isascii() or not head_length.isdigit() or int(head_length) > len(body):
            raise RequestError(400, f"{HEAD_LENGTH} is not the length of the JSON in the body")
        view = memoryview(body)
        return self._reader.read_any(view[: int(head_length)], view[int(head_length) :])

    def _write(self, ask: Ask, found: Slice) -> Answer:
        """The answer to a request that is not plain."""
        if not any(binary for _, binary in ask.outputs):
            names = [name for name, _ in ask.outputs] or [output.name for output in self._engine.outputs]
            return 200, _JSON_HEADERS, self._writer.json(found, ask.id, names)
        body, length = self._writer.mixed(found, ask.id, ask.outputs)
        return 200, [("content-type", "application/octet-stream"), (HEAD_LENGTH, str(length))], body

    def compute(self, works: Sequence[Work]) -> list[Slice | Exception]:
        """What a batch gives, a slice for each request."""
        x = self._matrix(works)
        try:
            arrays = self._engine.run(x)
        except ModelError:
            if np.isfinite(x).all():
                raise
            raise RequestError(400, "a value is missing or not finite, and the model cannot take that") from None
        outputs = [array.ravel().tolist() for array in arrays]
        slices: list[Slice | Exception] = []
        start = 0
        for work in works:
            slices.append(Slice(outputs, start, work.size))
            start += work.size
        return slices

    def _matrix(self, works: Sequence[Work]) -> np.ndarray:
        """The rows of all requests, one below the other."""
        width = self._engine.width
        if all(type(work.rows) is list for work in works):
            flat = works[0].rows if len(works) == 1 else list(chain.from_iterable(work.rows for work in works))
            x = np.array(flat, np.float32).reshape(-1, width)
            return _finite(x)
        columned = [work for work in works if isinstance(work.rows, tuple)]
        made = self._transformed(columned) if columned else None
        if made is not None and len(columned) == len(works):
            return made
        parts, start = [], 0
        for work in works:
            if isinstance(work.rows, tuple):
                assert made is not None
                parts.append(made[start : start + work.size])
                start += work.size
            else:
                parts.append(_finite(np.asarray(work.rows, np.float32).reshape(-1, width)))
        return np.concatenate(parts)

    def _transformed(self, works: Sequence[Work]) -> np.ndarray:
        """The columns of several requests through the transform, in one go."""
        assert self._transform is not None
        columns: list[Columns] = [work.rows for work in works if isinstance(work.rows, tuple)]
        if len(columns) == 1:
            joined: Columns = columns[0]
        else:
            joined = tuple(_joined(parts) for parts in zip(*columns, strict=True))
        try:
            return self._transform.matrix(dict(zip(self._names, joined, strict=True)))
        except InputError as error:
            raise RequestError(400, "; ".join(f"{item.where}: {item.what}" for item in error.problems)) from None


def _seconds(found: Found, engine: Engine, rows: int) -> float:
    """How long a full batch takes; InputError for a model that cannot be run at all."""
    try:
        return engine.seconds(rows)
    except ModelError as error:
        raise InputError.one(str(found.folder / ONNX), str(error), "export the model again") from error


def _datatype(dtype: str) -> str:
    """The protocol's name of a Polars type; texts and times travel as BYTES."""
    return "BOOL" if dtype == "Boolean" else datatype_of(dtype.lower()) if dtype.startswith(_NUMBERS) else BYTES


def _joined(parts: Sequence[Sequence[object] | np.ndarray]) -> Sequence[object]:
    """One column of several requests."""
    return [value for part in parts for value in (part.tolist() if isinstance(part, np.ndarray) else part)]


def _finite(x: np.ndarray) -> np.ndarray:
    """The rows, if every value is a finite number of 32 bits."""
    if not np.isfinite(x).all():
        raise RequestError(400, f'input "{MATRIX}": a value is NaN or too large for FP32')
    return x

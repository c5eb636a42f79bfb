"""Image datasets: folders as classes, images decoded once, resized and packed into shards.

A shard is a `.npy` of unsigned bytes [images, height, width, channels], with its facts and classes
next to it as JSON. Files that cannot be decoded are quarantined with their path.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.batch import Slots
from gpuyard.datasets.columns import ALL_KINDS, Columns
from gpuyard.datasets.step import ColumnPart, Operation, Statistics, StepSettings
from gpuyard.datasets.text.tokens import facts_path
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.field_types import Doc
from gpuyard.document.read import read_text
from gpuyard.errors import InputError, Problem
from gpuyard.home import write_atomic

if TYPE_CHECKING:
    from PIL import Image


Channels = Literal["rgb", "grey"]
ResizeMode = Literal["stretch", "crop", "pad"]
ChannelOrder = Literal["last", "first"]
SCHEMA = pl.Schema({"path": pl.String(), "class": pl.String(), "image": pl.Binary()})
_MODES = {"rgb": ("RGB", 3), "grey": ("L", 1)}
MAX_PIXELS = 1 << 14  # per side
_MAX_FACTS_BYTES = 1 << 28


def class_of(path: str) -> str:
    """Return the name of the folder that holds an image."""
    return PurePosixPath(path.replace("\\", "/")).parent.name


def image_frame(files: Sequence[tuple[str, bytes]]) -> pl.DataFrame:
    """Return paths and contents of image files as rows: path, class, image (still encoded)."""
    rows = {
        "path": [path for path, _ in files],
        "class": [class_of(path) for path, _ in files],
        "image": [contents for _, contents in files],
    }
    return pl.DataFrame(rows, schema=SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """Pixels of every image as bytes; null where it cannot be decoded."""

    column: str
    label: str | None
    height: int
    width: int
    channels: Channels
    fit: ResizeMode
    order: ChannelOrder
    scale: bool

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,) if self.label is None else (self.column, self.label)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and number of channels."""
        return self.height, self.width, _MODES[self.channels][1]

    def pixels(self, contents: bytes | None) -> bytes | None:
        """Return the pixels of an image file; None if it cannot be decoded."""
        image_module = decoder()
        if not contents:
            return None
        try:
            with image_module.open(io.BytesIO(contents)) as image:
                return self._resized(image).tobytes()
        except Exception:  # decoders of thirty formats raise anything; the row is quarantined
            return None

    def _resized(self, image: Image.Image) -> Image.Image:
        from PIL import Image, ImageOps

        size = self.width, self.height
        mode = _MODES[self.channels][0]
        image.draft(mode, (2 * self.width, 2 * self.height))  # decode JPEG no larger than needed
        upright = ImageOps.exif_transpose(image).convert(mode)
        if self.fit == "crop":
            return ImageOps.fit(upright, size, method=Image.Resampling.BILINEAR)
        if self.fit == "pad":
            return ImageOps.pad(upright, size, method=Image.Resampling.BILINEAR)
        return upright.resize(size, Image.Resampling.BILINEAR)

    def expressions(self) -> tuple[pl.Expr, ...]:

        def run(series: pl.Series) -> pl.Series:
            with (
                warnings.catch_warnings(),
                ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
            ):
                # Pillow only warns about decompression bombs: as errors they are not decoded
                warnings.simplefilter("error")
                return pl.Series(series.name, list(pool.map(self.pixels, series)), dtype=pl.Binary)

        return (pl.col(self.column).map_batches(run, return_dtype=pl.Binary, is_elementwise=True),)

    def after(self, columns: Columns) -> Columns:
        remaining = (*self.reads, "path")
        return columns.with_columns(
            {self.column: "Binary"}, drop=[name for name in columns.names if name not in remaining]
        )

    def numpy_operation(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Return an operation that does nothing: requests contain pixels."""
        return lambda batch: None  # noqa: ARG005

    def writer(self) -> ImageWriter:
        return ImageWriter(part=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable(ColumnPart):
    """Quarantine of rows whose image cannot be decoded."""

    @property
    def quarantined(self) -> bool:
        return True

    def keep(self) -> pl.Expr:
        return pl.col(self.column).is_not_null()

    def reason(self) -> str:
        return "not an image that can be decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Images(StepSettings):
    """Decode, resize and pack images; files that are not images are quarantined."""

    PARTS = (Pixels,)
    column: Annotated[str, Doc("the encoded images")] = "image"
    label: Annotated[str | None, Doc("the class of every image")] = "class"
    height: Annotated[int, Doc("pixels")] = 64
    width: Annotated[int, Doc("pixels")] = 64
    channels: Annotated[Channels, Doc("colour channels of a pixel")] = "rgb"
    fit: Annotated[
        ResizeMode, Doc("if the aspect ratio differs: stretch, crop the centre, or pad with black")
    ] = "stretch"
    order: Annotated[ChannelOrder, Doc("position of the channel axis when arrays are read")] = (
        "last"
    )
    scale: Annotated[bool, Doc("read as floats from 0 to 1, not 0 to 255")] = True

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError for wrong columns or sizes."""
        names = (self.column,) if self.label is None else (self.column, self.label)
        columns.select(names, ALL_KINDS, where)
        problems = [
            Problem(
                where=f"{where}: {name}",
                what=f"{value} pixels is out of range",
                fix=f"write 1 to {MAX_PIXELS}",
            )
            for name, value in (("height", self.height), ("width", self.width))
            if not 1 <= value <= MAX_PIXELS
        ]
        column = columns.get(self.column)
        if column is not None and column.dtype != "Binary":
            what = f'column "{self.column}" is {column.dtype}, not encoded images'
            fix = "use a folder of images as the source"
            problems.append(Problem(where=f"{where}: column", what=what, fix=fix))
        if problems:
            raise InputError(problems)
        decoder()
        return self

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Pixels, Readable]:  # noqa: ARG002
        pixels = Pixels(
            column=self.column,
            label=self.label,
            height=self.height,
            width=self.width,
            channels=self.channels,
            fit=self.fit,
            order=self.order,
            scale=self.scale,
        )
        return pixels, Readable(column=self.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """Contents of one shard."""

    images_count: int
    height: int
    width: int
    channels: int
    order: ChannelOrder
    scale: bool
    labels: tuple[str, ...]  # class of every image; empty without classes
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWriter:
    """Packs the images of a partition and split into one shard."""

    kind: ClassVar[Literal["images"]] = "images"
    suffix: ClassVar[str] = ".npy"
    part: Pixels

    def write(self, frame: pl.DataFrame, path: str) -> int:
        shape = (frame.height, *self.part.shape)
        contents = b"".join(frame[self.part.column])
        array = np.frombuffer(contents, dtype=np.uint8).reshape(shape)
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomic(Path(path), buffer.getvalue())
        label = self.part.label
        facts = ImageFacts(
            images_count=frame.height,
            height=shape[1],
            width=shape[2],
            channels=shape[3],
            order=self.part.order,
            scale=self.part.scale,
            labels=tuple(frame[label].cast(pl.String).fill_null("")) if label else (),
            sha256=hashlib.sha256(contents).hexdigest(),
        )
        write_atomic(facts_path(Path(path)), dump_json(facts))
        return frame.height


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageShards:
    """Packed images over several files, memory mapped."""

    files: tuple[Path, ...]
    facts: tuple[ImageFacts, ...]
    arrays: tuple[npt.NDArray[np.uint8], ...]

    def __len__(self) -> int:
        return sum(fact.images_count for fact in self.facts)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image as `batches` yields it."""
        first = self.facts[0]
        size = first.height, first.width
        return (first.channels, *size) if first.order == "first" else (*size, first.channels)

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({label for fact in self.facts for label in fact.labels}))

    def labels(self) -> npt.NDArray[np.int64]:
        """Return the class of every image, as an index into `classes`."""
        index = {name: number for number, name in enumerate(self.classes)}
        return np.array(
            [index[label] for fact in self.facts for label in fact.labels], dtype=np.int64
        )

    def of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """Return some images as floats, in the configured order and scale."""
        begins = np.cumsum([0, *(fact.images_count for fact in self.facts)])
        files = np.searchsorted(begins, rows, side="right") - 1
        floats = np.empty((len(rows), *self.shape), dtype=np.float32)
        for file in np.unique(files):
            in_file = files == file
            pixels = self.arrays[file][rows[in_file] - begins[file]]
            floats[in_file] = _as_read(pixels, self.facts[file])
        return floats

    def batches(self, rows: int) -> Iterator[npt.NDArray[np.float32]]:
        """Yield the images as floats, `rows` at a time, in the configured order and scale."""
        for fact, array in zip(self.facts, self.arrays, strict=True):
            for start in range(0, len(array), rows):
                yield _as_read(array[start : start + rows], fact)


def _as_read(pixels: npt.NDArray[np.uint8], fact: ImageFacts) -> npt.NDArray[np.float32]:
    floats = pixels.astype(np.float32)
    if fact.scale:
        floats = floats / 255.0
    return np.ascontiguousarray(floats.transpose(0, 3, 1, 2)) if fact.order == "first" else floats


def read_images(files: Sequence[Path]) -> ImageShards:
    """Open shards; raise InputError where one is missing or not a shard of images."""
    fix = "prepare the data again"
    facts, arrays = [], []
    for file in files:
        path = facts_path(file)
        if not file.is_file() or not path.is_file():
            raise InputError.one(str(file), "no such shard of images", fix)
        fact = load_json(read_text(path, _MAX_FACTS_BYTES), ImageFacts, str(path))
        try:
            array: npt.NDArray[np.uint8] = np.load(
                file, mmap_mode="r" if fact.images_count else None, allow_pickle=False
            )
        except (ValueError, OSError) as error:
            raise InputError.one(str(file), f"not a shard of images: {error}", fix) from None
        if array.shape != (fact.images_count, fact.height, fact.width, fact.channels):
            raise InputError.one(str(file), f"unexpected shape {array.shape}", fix)
        facts.append(fact)
        arrays.append(array)
    return ImageShards(files=tuple(files), facts=tuple(facts), arrays=tuple(arrays))


@functools.cache
def decoder() -> ModuleType:
    """Return Pillow's image module."""
    from PIL import Image

    return Image

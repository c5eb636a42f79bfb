"""Images from folders to arrays: every folder a class, every image decoded once, resized, packed in shards.

A shard is a `.npy` of unsigned bytes [images, height, width, channels], and its facts with the classes beside it.
What cannot be decoded is quarantined with its path.
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

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import Doc, dump_json, load_json, read_text
from gpuyard.errors import InputError, Problem, RefusedError
from gpuyard.home import write_whole

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "BATCH_BYTES", "ImageFacts", "ImageShards", "ImageWriter", "Images", "Pixels", "Readable", "class_of",
    "image_frame", "read_images",
]  # fmt: skip

BATCH_BYTES = 64 << 20
SCHEMA = pl.Schema({"path": pl.String(), "class": pl.String(), "image": pl.Binary()})
_MODES = {"rgb": ("RGB", 3), "grey": ("L", 1)}
_MOST_PIXELS = 1 << 14  # on a side


def class_of(path: str) -> str:
    """The name of the folder that an image lies in."""
    return PurePosixPath(path.replace("\\", "/")).parent.name


def image_frame(files: Sequence[tuple[str, bytes]]) -> pl.DataFrame:
    """Paths and contents of image files as rows: path, class, image (still encoded)."""
    rows = {
        "path": [path for path, _ in files],
        "class": [class_of(path) for path, _ in files],
        "image": [contents for _, contents in files],
    }
    return pl.DataFrame(rows, schema=SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Decodes, resizes and packs images; what is no image is quarantined."""

    column: Annotated[str, Doc("the encoded images")] = "image"
    label: Annotated[str | None, Doc("the class of every image")] = "class"
    height: Annotated[int, Doc("pixels")] = 64
    width: Annotated[int, Doc("pixels")] = 64
    channels: Annotated[Literal["rgb", "grey"], Doc("what a pixel is made of")] = "rgb"
    fit: Annotated[
        Literal["stretch", "crop", "pad"], Doc("where the shape differs: stretch, cut the middle out, or add black")
    ] = "stretch"
    order: Annotated[Literal["last", "first"], Doc("where channels stand when arrays are read")] = "last"
    scale: Annotated[bool, Doc("read as numbers from 0 to 1, not 0 to 255")] = True

    def bound(self, columns: Columns, where: str) -> Self:
        """The columns must be there, and the size must be one."""
        names = (self.column,) if self.label is None else (self.column, self.label)
        columns.chosen(names, ("number", "bool", "text", "time", "other"), where)
        problems = [
            Problem(where=f"{where}: {name}", what=f"{value} pixels are no size", fix=f"write 1 to {_MOST_PIXELS}")
            for name, value in (("height", self.height), ("width", self.width))
            if not 1 <= value <= _MOST_PIXELS
        ]
        if (found := columns.get(self.column)) is not None and found.dtype != "Binary":
            what = f'column "{self.column}" is {found.dtype}, not encoded images'
            problems.append(Problem(where=f"{where}: column", what=what, fix="name a folder of images as the source"))
        if problems:
            raise InputError(problems)
        decoder()
        return self

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Pixels, Readable]:  # noqa: ARG002
        """First the pixels, then the rows that have them."""
        pixels = Pixels(
            column=self.column, label=self.label, height=self.height, width=self.width, channels=self.channels,
            fit=self.fit, order=self.order, scale=self.scale,
        )  # fmt: skip
        return pixels, Readable(column=self.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pixels:
    """The pixels of every image as bytes, row by row; null where it cannot be decoded."""

    column: str
    label: str | None
    height: int
    width: int
    channels: Literal["rgb", "grey"]
    fit: Literal["stretch", "crop", "pad"]
    order: Literal["last", "first"]
    scale: bool

    @property
    def reads(self) -> tuple[str, ...]:
        """The images and their classes."""
        return (self.column,) if self.label is None else (self.column, self.label)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.height, self.width, _MODES[self.channels][1]

    def pixels(self, contents: bytes | None) -> bytes | None:
        """The pixels of one image file; None if it is not one."""
        image_module = decoder()
        if not contents:
            return None
        try:
            with image_module.open(io.BytesIO(contents)) as image:
                return self._fitted(image).tobytes()
        except Exception:  # decoders of thirty formats raise what they like; the row is quarantined
            return None

    def _fitted(self, image: Image.Image) -> Image.Image:
        """The image in its mode and size."""
        from PIL import Image, ImageOps

        size = self.width, self.height
        image.draft(_MODES[self.channels][0], (2 * size[0], 2 * size[1]))  # a JPEG is decoded no larger than needed
        upright = ImageOps.exif_transpose(image).convert(_MODES[self.channels][0])
        if self.fit == "crop":
            return ImageOps.fit(upright, size, method=Image.Resampling.BILINEAR)
        if self.fit == "pad":
            return ImageOps.pad(upright, size, method=Image.Resampling.BILINEAR)
        return upright.resize(size, Image.Resampling.BILINEAR)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The pixels in place of the encoded image, decoded on all cores."""

        def run(series: pl.Series) -> pl.Series:
            """The column."""
            with warnings.catch_warnings(), ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
                warnings.simplefilter("error")  # that a picture has an absurd size is a warning: it is not decoded
                return pl.Series(series.name, list(pool.map(self.pixels, series)), dtype=pl.Binary)

        return (pl.col(self.column).map_batches(run, return_dtype=pl.Binary, is_elementwise=True),)

    def after(self, columns: Columns) -> Columns:
        """The pixels and the classes."""
        return columns.changed(
            {self.column: "Binary"}, removed=[name for name in columns.names if name not in (*self.reads, "path")]
        )

    def compiled(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Nothing: a request brings its pixels."""

        def run(batch: Batch) -> None:
            """Leaves the rows as they are."""

        return run

    def writer(self) -> ImageWriter:
        """What writes the shards."""
        return ImageWriter(part=self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """Takes away the rows whose image could not be decoded."""

    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The images."""
        return (self.column,)

    @property
    def quarantined(self) -> bool:
        """They are kept apart."""
        return True

    def keep(self) -> pl.Expr:
        """It was decoded."""
        return pl.col(self.column).is_not_null()

    def reason(self) -> str:
        """The same for all."""
        return "not an image that can be decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """What one shard holds."""

    images_count: int
    height: int
    width: int
    channels: int
    order: Literal["last", "first"]
    scale: bool
    labels: tuple[str, ...]  # the class of every image; empty without classes
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWriter:
    """Packs the images of a partition and split into one shard."""

    kind: ClassVar[Literal["images"]] = "images"
    suffix: ClassVar[str] = ".npy"
    part: Pixels

    def write(self, frame: pl.DataFrame, path: str) -> int:
        """Writes the shard; gives how many images it holds."""
        shape = (frame.height, *self.part.shape)
        contents = b"".join(frame[self.part.column])
        array = np.frombuffer(contents, dtype=np.uint8).reshape(shape)
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_whole(Path(path), buffer.getvalue())
        label = self.part.label
        facts = ImageFacts(
            images_count=frame.height, height=shape[1], width=shape[2], channels=shape[3], order=self.part.order,
            scale=self.part.scale, labels=tuple(frame[label].cast(pl.String).fill_null("")) if label else (),
            sha256=hashlib.sha256(contents).hexdigest(),
        )  # fmt: skip
        write_whole(_beside(Path(path)), dump_json(facts))
        return frame.height


def _beside(path: Path) -> Path:
    """Where the facts of a shard stand."""
    return path.with_name(path.name + ".json")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageShards:
    """Packed images over several files, memory mapped."""

    files: tuple[Path, ...]
    facts: tuple[ImageFacts, ...]
    arrays: tuple[npt.NDArray[np.uint8], ...]

    def __len__(self) -> int:
        return sum(fact.images_count for fact in self.facts)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in order."""
        return tuple(sorted({label for fact in self.facts for label in fact.labels}))

    def labels(self) -> npt.NDArray[np.int64]:
        """The class of every image, as its number in `classes`."""
        place = {name: number for number, name in enumerate(self.classes)}
        return np.array([place[label] for fact in self.facts for label in fact.labels], dtype=np.int64)

    def batches(self, rows: int) -> Iterator[npt.NDArray[np.float32]]:
        """The images as floats, `rows` at a time, with the order of channels and the scale that were asked for."""
        for fact, array in zip(self.facts, self.arrays, strict=True):
            for start in range(0, len(array), rows):
                floats = array[start : start + rows].astype(np.float32)
                floats = floats / 255.0 if fact.scale else floats
                yield np.ascontiguousarray(floats.transpose(0, 3, 1, 2)) if fact.order == "first" else floats


def read_images(files: Sequence[Path]) -> ImageShards:
    """The shards for reading; InputError where one is missing or is no shard of images."""
    facts, arrays = [], []
    for file in files:
        if not file.is_file() or not _beside(file).is_file():
            raise InputError.one(str(file), "no such shard of images", "prepare the data again")
        fact = load_json(read_text(_beside(file), 1 << 28), ImageFacts, str(_beside(file)))
        try:
            array: npt.NDArray[np.uint8] = np.load(
                file, mmap_mode="r" if fact.images_count else None, allow_pickle=False
            )
        except (ValueError, OSError) as error:
            raise InputError.one(str(file), f"not a shard of images: {error}", "prepare the data again") from None
        if array.shape != (fact.images_count, fact.height, fact.width, fact.channels):
            raise InputError.one(str(file), f"has the shape {array.shape}", "prepare the data again")
        facts.append(fact)
        arrays.append(array)
    return ImageShards(files=tuple(files), facts=tuple(facts), arrays=tuple(arrays))


@functools.cache
def decoder() -> ModuleType:
    """Pillow's image module; RefusedError where it is not installed."""
    try:
        from PIL import Image
    except ImportError as error:
        raise RefusedError("pillow", "is not installed, images need it", "pip install 'gpuyard[run]'") from error
    return Image

"""The bundle: the folder of one model as training exports it and serving loads it, whole or not at all.

model.json        what it is, where it came from, and the SHA-256 of every other file but the card
model.onnx        everything but language models: input "x" float32 [n, f], outputs by name
transform.json    optional: the fitted transform that stands in front of "x"
weights/          language models: config.json, model.safetensors, tokenizer.json as Hugging Face lays them out
card.md           the model card, for people; not hashed, so that people may write in it
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias

from gpuyard.document import AtLeast, Doc, dump_json, load_json
from gpuyard.errors import InputError, Problem, RefusedError
from gpuyard.home import write_whole

__all__ = [
    "CARD", "DESCRIPTION", "ONNX", "TRANSFORM", "WEIGHTS", "Bundle", "BundleFile", "Kind", "Lineage", "Metric", "Pair",
    "Tensor", "digest_of", "read_bundle", "write_bundle",
]  # fmt: skip

DESCRIPTION, ONNX, TRANSFORM, WEIGHTS, CARD = "model.json", "model.onnx", "transform.json", "weights", "card.md"
CHUNK_BYTES = 1 << 20
Kind: TypeAlias = Literal["classification", "regression", "ranking", "language"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A named array that goes in or comes out; -1 in the shape is the number of rows."""

    name: str
    dtype: Annotated[str, Doc("as NumPy names it: float32, int64, str")]
    shape: tuple[int, ...] = (-1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A measured number and its name, with the ends of its confidence interval where they are known."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A name and its value as text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What a model was made from: enough to make it again."""

    data: Annotated[str, Doc("version of the prepared data: the hash in its manifest")] = ""
    transform: Annotated[str, Doc("version of the fitted transform")] = ""
    code: Annotated[str, Doc("version of gpuyard, and of the user's own code where it was run")] = ""
    parameters: Annotated[tuple[Pair, ...], Doc("what the trainer was given")] = ()
    environment: Annotated[tuple[Pair, ...], Doc("versions of Python and of the packages that matter")] = ()
    run: Annotated[str, Doc("the run in the ledger that made it")] = ""
    parent: Annotated[str, Doc("NAME/VERSION that it was fine-tuned or imported from")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile:
    """One file of a bundle."""

    path: str
    size_bytes: Annotated[int, AtLeast(0)]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What model.json says."""

    kind: Kind
    trainer: Annotated[str, Doc("the key under train: trees, jax_mlp, torch_transformer, …")]
    framework: Annotated[str, Doc("lightgbm 4.7.0, jax 0.10.2, …")] = ""
    inputs: Annotated[tuple[Tensor, ...], Doc("as a client sends them, before the transform")]
    outputs: tuple[Tensor, ...]
    classes: Annotated[tuple[str, ...], Doc("labels in the order of the probabilities")] = ()
    features: Annotated[tuple[str, ...], Doc("names of the columns of x, after the transform")] = ()
    parameters_count: Annotated[int, AtLeast(0), Doc("trained numbers: weights, or leaves of trees")] = 0
    sample_bytes: Annotated[int, AtLeast(0), Doc("one row as the model takes it")] = 0
    metrics: tuple[Metric, ...] = ()
    lineage: Lineage = Lineage()
    files: Annotated[tuple[BundleFile, ...], Doc("filled in by write_bundle")] = ()

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(file.size_bytes for file in self.files)


def write_bundle(folder: Path, bundle: Bundle) -> Bundle:
    """Hashes the files that stand in `folder` and writes model.json, last; gives the bundle with its files."""
    whole = dataclasses.replace(bundle, files=tuple(_hashed(folder)))
    problems = list(_problems(folder, whole))
    if problems:
        raise InputError(problems)
    write_whole(folder / DESCRIPTION, dump_json(whole))
    return whole


def read_bundle(folder: Path, *, verify: bool = True) -> Bundle:
    """The bundle in `folder`; InputError if it is none, or (with `verify`) if a file is not as it was written."""
    place = folder / DESCRIPTION
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError.one(str(folder), f"is not a model: it has no {DESCRIPTION}", "name a bundle folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(str(place), f"cannot be read: {error}", "check the file") from error
    bundle = load_json(text, Bundle, str(place))
    problems = list(_problems(folder, bundle))
    if not problems:
        problems = list(_changed(folder, bundle) if verify else _missing(folder, bundle))
    if problems:
        raise InputError(problems)
    return bundle


def digest_of(folder: Path) -> str:
    """The SHA-256 of model.json, which holds those of the other files: equal when the whole bundle is."""
    return hashlib.sha256((folder / DESCRIPTION).read_bytes()).hexdigest()


def _hashed(folder: Path) -> Iterator[BundleFile]:
    """Every file but the description and the card, by path."""
    for path in _files(folder):
        size_bytes, sha256 = _sha256(path)
        yield BundleFile(path=path.relative_to(folder).as_posix(), size_bytes=size_bytes, sha256=sha256)


def _files(folder: Path) -> list[Path]:
    """The hashed files that stand in the folder; unfinished atomic writes are not among them."""
    kept = (
        path
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).as_posix() not in (DESCRIPTION, CARD)
        and not path.name.startswith((f".{DESCRIPTION}.", f".{CARD}."))
    )  # fmt: skip
    return sorted(kept)


def _sha256(path: Path) -> tuple[int, str]:
    """Size and hash of a file."""
    hashed, size_bytes = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                hashed.update(chunk)
                size_bytes += len(chunk)
    except OSError as error:
        raise RefusedError(str(path), f"cannot be read: {error.strerror}", "check the disk") from error
    return size_bytes, hashed.hexdigest()


def _problems(folder: Path, bundle: Bundle) -> Iterator[Problem]:
    """What contradicts itself in the description."""
    where = str(folder / DESCRIPTION)
    paths = [file.path for file in bundle.files]
    for path in paths:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or (folder / path).is_symlink():
            yield Problem(where=where, what=f'file "{path}" leads out of the bundle', fix="write the bundle again")
    needed = f"{WEIGHTS}/config.json" if bundle.kind == "language" else ONNX
    if needed not in paths:
        yield Problem(where=where, what=f"a {bundle.kind} model has no {needed}", fix=f"export {needed} first")
    if bundle.kind == "classification" and len(bundle.classes) < 2:
        yield Problem(where=where, what="fewer than two classes", fix="give the labels as classes")
    for field, names in (
        ("inputs", [tensor.name for tensor in bundle.inputs]),
        ("outputs", [tensor.name for tensor in bundle.outputs]),
        ("classes", list(bundle.classes)),
        ("metrics", [metric.name for metric in bundle.metrics]),
        ("files", paths),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield Problem(where=where, what=f"{field}: {', '.join(twice)} twice", fix="give each its own name")
    for metric in bundle.metrics:
        if not math.isfinite(metric.value):
            yield Problem(where=where, what=f"metric {metric.name} is not a finite number", fix="leave it out")


def _missing(folder: Path, bundle: Bundle) -> Iterator[Problem]:
    """Files that are not there."""
    for file in bundle.files:
        if not (folder / file.path).is_file():
            yield Problem(where=str(folder / file.path), what="is missing", fix="register or export the model again")


def _changed(folder: Path, bundle: Bundle) -> Iterator[Problem]:
    """Files that are missing, changed, or were never part of the bundle."""
    standing = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    fix = "register or export the model again"
    for file in bundle.files:
        path = standing.pop(file.path, None)
        if path is None:
            yield Problem(where=str(folder / file.path), what="is missing", fix=fix)
        elif _sha256(path) != (file.size_bytes, file.sha256):
            yield Problem(where=str(path), what="is not as it was written: its SHA-256 differs", fix=fix)
    for path in standing.values():
        yield Problem(where=str(path), what="is not part of the bundle", fix="remove it")

"""The bundle: the folder of one model that training exports and serving loads, verified by hash.

model.json        what it is, its lineage, and the SHA-256 of every other file but the card
model.onnx        all but language models: input "x" float32 [n, f], outputs by name
transform.json    optional: the fitted transform applied before "x"
processing.py     optional: code of the author before and after model.onnx
profile.json      optional: the distribution of "x" in training, for drift
weights/          language models: config.json, model.safetensors, tokenizer.json (Hugging Face)
card.md           the model card, for people; not hashed, so that people may edit it
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeAlias

from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import ExternalError, InputError, Problem
from gpuyard.home import write_atomic

DESCRIPTION = "model.json"
ONNX = "model.onnx"
TRANSFORM = "transform.json"
WEIGHTS = "weights"
PROCESSING = "processing.py"
CARD = "card.md"
CHUNK_BYTES = 1 << 20
Kind: TypeAlias = Literal["classification", "regression", "ranking", "language"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A named input or output array; -1 in the shape is the number of rows."""

    name: str
    dtype: Annotated[str, Doc("as NumPy names it: float32, int64, str")]
    shape: tuple[int, ...] = (-1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A named metric value, with its confidence interval where it is known."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name and its value as text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLineage:
    """What a model was trained from: enough to train it again."""

    data: Annotated[str, Doc("version of the prepared data: the hash in its manifest")] = ""
    transform: Annotated[str, Doc("version of the fitted transform")] = ""
    code: Annotated[str, Doc("version of gpuyard, and of the user's own code where it was run")] = (
        ""
    )
    parameters: Annotated[tuple[Tag, ...], Doc("settings of the trainer")] = ()
    environment: Annotated[
        tuple[Tag, ...], Doc("versions of Python and of the packages that matter")
    ] = ()
    run: Annotated[str, Doc("the run in the ledger that trained it")] = ""
    label: Annotated[str, Doc("the column that it predicts")] = ""
    evaluated: Annotated[str, Doc("the rows and folds that its metrics were measured on")] = ""
    parent: Annotated[str, Doc("NAME/VERSION that it was fine-tuned or imported from")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """Code of the author in processing.py; the bundle's inputs and outputs are those around it."""

    model_outputs: Annotated[tuple[str, ...], Doc("outputs of model.onnx that postprocess takes")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFile:
    """One file of a bundle."""

    path: str
    size_bytes: Annotated[int, AtLeast(0)]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelBundle:
    """The contents of model.json."""

    kind: Kind
    trainer: Annotated[str, Doc("the key under train: trees, jax_mlp, torch_transformer, …")]
    framework: Annotated[str, Doc("lightgbm 4.7.0, jax 0.10.2, …")] = ""
    inputs: Annotated[tuple[Tensor, ...], Doc("as a client sends them, before the transform")]
    outputs: tuple[Tensor, ...]
    classes: Annotated[tuple[str, ...], Doc("labels in the order of the probabilities")] = ()
    features: Annotated[tuple[str, ...], Doc("names of the columns of x, after the transform")] = ()
    parameters_count: Annotated[
        int, AtLeast(0), Doc("trained parameters: weights, or leaves of trees")
    ] = 0
    sample_bytes: Annotated[int, AtLeast(0), Doc("one row as the model takes it")] = 0
    metrics: tuple[Metric, ...] = ()
    lineage: ModelLineage = ModelLineage()
    processing: Processing | None = None
    files: Annotated[tuple[BundleFile, ...], Doc("filled in by write_bundle")] = ()

    @property
    def size_bytes(self) -> int:
        """Total size of all files."""
        return sum(file.size_bytes for file in self.files)


def write_bundle(folder: Path, bundle: ModelBundle) -> ModelBundle:
    """Hash the files in `folder`, write model.json last, and return the bundle with its files."""
    complete = dataclasses.replace(bundle, files=tuple(_hashed(folder)))
    problems = list(_problems(folder, complete))
    if problems:
        raise InputError(problems)
    write_atomic(folder / DESCRIPTION, dump_json(complete))
    return complete


def read_bundle(folder: Path, *, verify: bool = True) -> ModelBundle:
    """Return the bundle in `folder`; raise InputError if it is none or (with `verify`) damaged."""
    path = folder / DESCRIPTION
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError.one(
            str(folder), f"is not a model: it has no {DESCRIPTION}", "choose a bundle folder"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExternalError(str(path), f"cannot be read: {error}", "check the file") from error
    bundle = load_json(text, ModelBundle, str(path))
    problems = list(_problems(folder, bundle))
    if not problems:
        problems = list(_changed(folder, bundle) if verify else _missing(folder, bundle))
    if problems:
        raise InputError(problems)
    return bundle


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of model.json, which contains the hashes of all other files."""
    return hashlib.sha256((folder / DESCRIPTION).read_bytes()).hexdigest()


def _hashed(folder: Path) -> Iterator[BundleFile]:
    for path in _files(folder):
        size_bytes, sha256 = _sha256(path)
        yield BundleFile(
            path=path.relative_to(folder).as_posix(), size_bytes=size_bytes, sha256=sha256
        )


def _files(folder: Path) -> list[Path]:
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.relative_to(folder).as_posix() not in (DESCRIPTION, CARD)
        and not path.name.startswith((f".{DESCRIPTION}.", f".{CARD}."))  # unfinished atomic writes
    )
    return sorted(files)


def _sha256(path: Path) -> tuple[int, str]:
    hashed, size_bytes = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                hashed.update(chunk)
                size_bytes += len(chunk)
    except OSError as error:
        raise ExternalError(
            str(path), f"cannot be read: {error.strerror}", "check the disk"
        ) from error
    return size_bytes, hashed.hexdigest()


def _problems(folder: Path, bundle: ModelBundle) -> Iterator[Problem]:
    where = str(folder / DESCRIPTION)
    paths = [file.path for file in bundle.files]
    for path in paths:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts or (folder / path).is_symlink():
            yield Problem(
                where=where,
                what=f'file "{path}" is outside the bundle',
                fix="write the bundle again",
            )
    needed = f"{WEIGHTS}/config.json" if bundle.kind == "language" else ONNX
    if needed not in paths:
        yield Problem(
            where=where, what=f"a {bundle.kind} model has no {needed}", fix=f"export {needed} first"
        )
    if bundle.processing is not None and PROCESSING not in paths:
        yield Problem(where=where, what=f"has no {PROCESSING}", fix="import the model again")
    if bundle.kind == "classification" and len(bundle.classes) < 2:
        yield Problem(where=where, what="fewer than two classes", fix="set classes to the labels")
    for field, names in (
        ("inputs", [tensor.name for tensor in bundle.inputs]),
        ("outputs", [tensor.name for tensor in bundle.outputs]),
        ("classes", list(bundle.classes)),
        ("metrics", [metric.name for metric in bundle.metrics]),
        ("files", paths),
    ):
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            what = f"{field}: duplicate name {', '.join(duplicates)}"
            yield Problem(where=where, what=what, fix="use unique names")
    for metric in bundle.metrics:
        if not math.isfinite(metric.value):
            yield Problem(
                where=where, what=f"metric {metric.name} is not a finite number", fix="leave it out"
            )


def _missing(folder: Path, bundle: ModelBundle) -> Iterator[Problem]:
    for file in bundle.files:
        if not (folder / file.path).is_file():
            yield Problem(
                where=str(folder / file.path),
                what="is missing",
                fix="register or export the model again",
            )


def _changed(folder: Path, bundle: ModelBundle) -> Iterator[Problem]:
    present = {path.relative_to(folder).as_posix(): path for path in _files(folder)}
    fix = "register or export the model again"
    for file in bundle.files:
        path = present.pop(file.path, None)
        if path is None:
            yield Problem(where=str(folder / file.path), what="is missing", fix=fix)
        elif _sha256(path) != (file.size_bytes, file.sha256):
            yield Problem(
                where=str(path), what="has changed since it was written: SHA-256 mismatch", fix=fix
            )
    for path in present.values():
        yield Problem(where=str(path), what="is not part of the bundle", fix="remove it")

"""Read a workload file: parse, decode, resolve its model and check every rule."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from gpuyard.catalog.huggingface.read import read_config
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_text, read_yaml
from gpuyard.document.tree import Document, Mapping, Scalar, Sequence
from gpuyard.errors import InputError, Problem
from gpuyard.workload.checks.check_list import check_workload
from gpuyard.workload.misplaced import misplaced_keys
from gpuyard.workload.model import ModelReader, find_model, no_files
from gpuyard.workload.where import region_of
from gpuyard.workload.workload import Workload, WorkloadFile


def read_workload(path: Path, catalog: Catalog) -> Workload:
    """Return the workload that a file describes; InputError lists every problem."""
    return workload_of(read_yaml(read_text(path), str(path)), catalog, path.parent)


def workload_of(document: Document, catalog: Catalog, folder: Path) -> Workload:
    """Return the workload of a document; files that it names are relative to the folder."""

    def read(written: str) -> Model:
        return read_config(folder / Path(written).expanduser())

    workload = _workload(document, catalog, read)
    missing = _missing_files(workload, folder)
    if missing:
        raise InputError(_located(document, missing))
    return workload


def parse_workload(text: str, file: str, catalog: Catalog) -> Workload:
    """Return the workload that a text describes, without reading other files."""
    return _workload(read_yaml(text, file), catalog, no_files)


def own_catalogs(path: Path) -> tuple[Path, ...]:
    """Return the user's catalog files that a workload file names; loaded before the workload."""
    return own_catalogs_of(read_yaml(read_text(path), str(path)), path.parent)


def own_catalogs_of(document: Document, folder: Path) -> tuple[Path, ...]:
    """Return the catalog files under `where.catalog` of a document."""
    node = document.root
    for key in ("where", "catalog"):
        if not isinstance(node, Mapping) or (child := node.get(key)) is None:
            return ()
        node = child
    items = node.items if isinstance(node, Sequence) else ()
    named = [folder / item.text for item in items if isinstance(item, Scalar)]
    missing = [
        _no_file(f"where.catalog[{index}]", file)
        for index, file in enumerate(named)
        if not file.exists()
    ]
    if missing:
        raise InputError(_located(document, missing))
    return tuple(named)


def _workload(document: Document, catalog: Catalog, read: ModelReader) -> Workload:
    spec = _spec(document)
    model = find_model(spec.model, catalog, read)
    known_model = None if isinstance(model, Problem) else model
    workload = resolve(spec, known_model, document.file)
    problems = [
        Problem(where=finding.where, what=finding.what, fix=finding.fix)
        for finding in check_workload(workload, catalog)
    ]
    if isinstance(model, Problem):  # an unknown model is not reported as missing too
        problems = [model, *(problem for problem in problems if problem.where != "model")]
    if problems:
        raise InputError(_located(document, problems))
    return workload


def _spec(document: Document) -> WorkloadFile:
    try:
        return decode(document.root, WorkloadFile, Keys.BARE)
    except InputError as error:
        moved = misplaced_keys(document)
        raise InputError(moved.get(problem.where, problem) for problem in error.problems) from None


def resolve(spec: WorkloadFile, model: Model | None, file: str) -> Workload:
    """Return the workload with its model, a name from the file and a region from the zone."""
    where = spec.where
    if where.region is None and where.zone is not None:
        where = dataclasses.replace(where, region=region_of(where.zone))
    shared = {
        field.name: getattr(spec, field.name)
        for field in dataclasses.fields(WorkloadFile)
        if field.name not in ("name", "model", "where")
    }
    name = spec.name if spec.name is not None else _slug(Path(file).stem)
    return Workload(name=name, model=model, where=where, **shared)


def _slug(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:63].strip("._-") or "workload"


def _located(document: Document, problems: list[Problem]) -> list[Problem]:
    """Replace key paths by locations in the file, in the order of lines."""
    located = [(document.location(problem.where), problem) for problem in problems]
    located.sort(key=lambda pair: pair[0].line or 0)
    return [location.problem(problem.what, problem.fix) for location, problem in located]


def _missing_files(workload: Workload, folder: Path) -> list[Problem]:
    named = [
        (f"where.catalog[{index}]", written) for index, written in enumerate(workload.where.catalog)
    ]
    if workload.traffic is not None and workload.traffic.trace is not None:
        named.append(("traffic.trace", workload.traffic.trace))
    return [_no_file(path, folder / text) for path, text in named if not (folder / text).exists()]


def _no_file(path: str, file: Path) -> Problem:
    fix = "give its path relative to this workload file"
    return Problem(where=path, what=f"no such file: {file}", fix=fix)

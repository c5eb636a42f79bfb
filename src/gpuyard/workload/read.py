"""A workload file to a Workload: read, decoded, its model found, and every rule checked."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from gpuyard.catalog import Catalog, Model
from gpuyard.catalog.huggingface import read_config
from gpuyard.document import Document, Keys, Mapping, Scalar, Sequence, decode, read_text, read_yaml
from gpuyard.errors import InputError, Problem
from gpuyard.workload.checks import CHECKS
from gpuyard.workload.finding import Finding
from gpuyard.workload.misplaced import misplaced_keys
from gpuyard.workload.model import ModelReader, find_model, no_files
from gpuyard.workload.where import region_of
from gpuyard.workload.workload import Workload, WorkloadFile

__all__ = ["own_catalogs", "parse_workload", "read_workload"]


def read_workload(path: Path, catalog: Catalog) -> Workload:
    """The workload that the file describes; InputError with every problem if there is any."""

    def read(written: str) -> Model:
        """The model of a config beside the file."""
        return read_config(path.parent / Path(written).expanduser())

    document = read_yaml(read_text(path), str(path))
    workload = _workload(document, catalog, read)
    missing = _missing_files(workload, path.parent)
    if missing:
        raise InputError(_in_order(document, missing))
    return workload


def parse_workload(text: str, file: str, catalog: Catalog) -> Workload:
    """The workload that the text describes, without reading anything else; `file` is for places and the name."""
    return _workload(read_yaml(text, file), catalog, no_files)


def own_catalogs(path: Path) -> tuple[Path, ...]:
    """The user's catalog files that a workload file names; they are needed before the workload can be read."""
    document = read_yaml(read_text(path), str(path))
    node = document.root
    for key in ("where", "catalog"):
        if not isinstance(node, Mapping) or (child := node.get(key)) is None:
            return ()
        node = child
    items = node.items if isinstance(node, Sequence) else ()
    named = [path.parent / item.text for item in items if isinstance(item, Scalar)]
    missing = [_no_file(f"where.catalog[{index}]", file) for index, file in enumerate(named) if not file.exists()]
    if missing:
        raise InputError(_in_order(document, missing))
    return tuple(named)


def _workload(document: Document, catalog: Catalog, read: ModelReader) -> Workload:
    """The workload of a file that was read."""
    spec = _spec(document)
    found = find_model(spec.model, catalog, read)
    workload = _resolved(spec, None if isinstance(found, Finding) else found, document.file)
    findings = [finding for check in CHECKS for finding in check(workload, catalog)]
    if isinstance(found, Finding):  # a model that is not known is not also missing
        findings = [found, *(finding for finding in findings if finding.path != "model")]
    if findings:
        raise InputError(_in_order(document, findings))
    return workload


def _spec(document: Document) -> WorkloadFile:
    """The file's contents; a key in the wrong section is told its place."""
    try:
        return decode(document.root, WorkloadFile, Keys.BARE)
    except InputError as error:
        moved = misplaced_keys(document)
        raise InputError(moved.get(problem.where, problem) for problem in error.problems) from None


def _resolved(spec: WorkloadFile, model: Model | None, file: str) -> Workload:
    """The workload with its model; a file gives its name, and a zone its region, where they are left out."""
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
    """A file's name as a workload's."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:63].strip("._-") or "workload"


def _in_order(document: Document, findings: list[Finding]) -> list[Problem]:
    """The findings as problems with their lines, from the top of the file down."""
    placed = [(document.place(finding.path), finding) for finding in findings]
    placed.sort(key=lambda pair: pair[0].line or 0)
    return [place.problem(finding.what, finding.fix) for place, finding in placed]


def _missing_files(workload: Workload, folder: Path) -> list[Finding]:
    """Files that the workload names and that are not there."""
    named = [(f"where.catalog[{index}]", written) for index, written in enumerate(workload.where.catalog)]
    if workload.traffic is not None and workload.traffic.trace is not None:
        named.append(("traffic.trace", workload.traffic.trace))
    return [_no_file(path, folder / text) for path, text in named if not (folder / text).exists()]


def _no_file(path: str, file: Path) -> Finding:
    """A file that is not there."""
    fix = "give its path from the folder of this workload file"
    return Finding(path=path, what=f"no such file: {file}", fix=fix)

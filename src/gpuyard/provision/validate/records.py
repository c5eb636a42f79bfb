"""Files that gpuyard writes beside what is deployed: nobody sends them, but a later command reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuyard.blueprint import blueprint_from_json
from gpuyard.errors import InputError
from gpuyard.fabric import from_json
from gpuyard.provision.deployment import deployment_from_json
from gpuyard.provision.finding import Finding
from gpuyard.provision.part import Part

__all__ = ["RECORDS", "record_faults"]

# By the start of their format, whose number a newer gpuyard may have raised: the reader says so.
RECORDS: dict[str, Callable[[str, str], object]] = {
    "gpuyard-blueprint": blueprint_from_json,
    "gpuyard-deployment": deployment_from_json,
    "gpuyard-fabric": from_json,
}


def record_faults(part: Part) -> Iterator[Finding]:
    """Why a later command would refuse the file: it was changed by hand, or another version wrote it."""
    try:
        RECORDS[part.type](part.text, part.file)
    except InputError as error:
        for problem in error.problems:
            yield Finding(rule="record", severity="error", where=problem.where, what=problem.what, fix=problem.fix)

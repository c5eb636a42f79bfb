"""`gpuyard accuracy collectives`: the NCCL time model against published bus bandwidths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyard.app.accuracy import read_rows
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.read import read_file
from gpuyard.errors import InputError
from gpuyard.simulate.collectives.constants import NcclConstants, read_constants
from gpuyard.simulate.collectives.score import CollectiveScore, score_collectives

NEEDED = {"system", "fabric", "nodes", "gpus", "collective", "size_bytes", "time_us", "busbw_GBps"}
COLUMNS = (
    "system, fabric, nodes, gpus, collective, size_bytes, time_us, algbw_GBps, busbw_GBps, note"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Constant:
    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConstantsFile:
    constants: tuple[_Constant, ...]


def score_bandwidths(path: Path, constants: Path | None = None) -> CollectiveScore:
    """Score the model on a CSV file; `constants`: written by `gpuyard calibrate`."""
    own = read_constants_file(constants) if constants else None
    return score_collectives(read_rows(path, NEEDED, "measured collectives", COLUMNS), own)


def read_constants_file(path: Path) -> NcclConstants:
    """Read constants of the NCCL time model that `gpuyard calibrate` wrote."""
    file = decode(read_file(path).root, _ConstantsFile, Keys.SUFFIXED)
    given = {item.name: item.value for item in file.constants}
    unknown = sorted(set(given) - set(read_constants().values))
    if unknown:
        raise InputError.one(
            str(path), f"no constant named {unknown[0]}", "write it with gpuyard calibrate"
        )
    return NcclConstants(values=dict(read_constants().values) | given)

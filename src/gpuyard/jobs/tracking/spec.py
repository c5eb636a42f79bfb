"""The `track` section: where the runs of a pipeline are exported to while they run."""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, choices_text

FIX = "write mlflow=http://HOST:PORT or tensorboard=DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSpec:
    """Where runs are exported to while they run; a tracker that is down stops no run."""

    mlflow: Annotated[str | None, Doc("address of an MLflow tracking server")] = None
    experiment: Annotated[
        str | None, Doc("MLflow experiment; default: the name of the workload")
    ] = None
    model: Annotated[bool, Doc("also upload the bundle of the model to MLflow")] = False
    tensorboard: Annotated[
        str | None, Doc("folder of TensorBoard event files, with a folder per run")
    ] = None

    @property
    def is_empty(self) -> bool:
        return self.mlflow is None and self.tensorboard is None


NO_TRACKING = TrackSpec()


def check_track(spec: TrackSpec, where: str) -> None:
    """Raise InputError for an address that is not one of an MLflow server."""
    if spec.mlflow is not None:
        parts = urllib.parse.urlsplit(spec.mlflow)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            what = f"{spec.mlflow} is not the address of a server"
            raise InputError.one(f"{where}.mlflow", what, "write http://HOST:PORT")
    for name in ("experiment", "model"):
        if getattr(spec, name) and spec.mlflow is None:
            raise InputError.one(
                f"{where}.{name}", "is for MLflow only", "add mlflow: http://HOST:PORT"
            )


def with_options(spec: TrackSpec, options: Sequence[str]) -> TrackSpec:
    """Return the section with `NAME=VALUE` of the command line, which override those of the file.

    A relative folder is one of the current directory.
    """
    values: dict[str, str | None] = {
        "mlflow": spec.mlflow,
        "experiment": spec.experiment,
        "tensorboard": spec.tensorboard,
    }
    for option in options:
        name, sign, value = option.partition("=")
        if name not in values or not sign or not value:
            what = f"is not {choices_text([f'{item}=VALUE' for item in values])}"
            raise InputError.one(f"--track {option}", what, FIX)
        values[name] = str(Path(value).absolute()) if name == "tensorboard" else value
    spec = TrackSpec(
        mlflow=values["mlflow"],
        experiment=values["experiment"],
        model=spec.model,
        tensorboard=values["tensorboard"],
    )
    check_track(spec, "--track")
    return spec


def in_folder(spec: TrackSpec, base: Path) -> TrackSpec:
    """Return the section with a relative folder taken from that of the workload file."""
    if spec.tensorboard is None:
        return spec
    return dataclasses.replace(spec, tensorboard=str((base / spec.tensorboard).absolute()))

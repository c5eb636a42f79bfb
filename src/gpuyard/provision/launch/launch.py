"""The launch of a job or replica: image, environment, scripts to source, and the command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc

MODEL_CACHE = "/tmp/hf"  # of downloaded weights; pods mount a volume there


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """An environment variable with a fixed value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketMount:
    """A bucket, or a folder of one, mounted as a folder of the machine."""

    name: str
    bucket: str
    path: Annotated[str, Doc("on the machine")]
    folder: Annotated[str, Doc("in the bucket; empty: the whole bucket")] = ""
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How one job or replica starts.

    The platform sets NODE_RANK, NODE_COUNT and MASTER_ADDR before `program`.
    """

    framework: Annotated[str, Doc("torch, jax, torch-xla, command, or a serving engine")]
    image: str
    program: Annotated[str, Doc("shell lines, the same on every machine")]
    variables: tuple[EnvVar, ...] = ()
    env_scripts: Annotated[tuple[str, ...], Doc("scripts to source before the program")] = ()
    variables_after_scripts: Annotated[
        tuple[EnvVar, ...], Doc("exported after the scripts, which would overwrite them")
    ] = ()
    library_path: Annotated[str, Doc("put before the image's own LD_LIBRARY_PATH")] = ""
    mounts: tuple[BucketMount, ...] = ()
    machine_count: Annotated[int, Doc("machines of the job, or of one replica")] = 1
    chips_per_machine: Annotated[float, Doc("accelerators used per machine")] = 0
    port: Annotated[int | None, Doc("of a server")] = None
    health: Annotated[str, Doc("path that returns 200 when the server is ready")] = ""
    notes: tuple[str, ...] = ()

    def script(self, *prelude: str, exports: bool = False) -> str:
        """Return the shell script.

        `prelude` sets rank and address; `exports` also writes the environment variables.
        """
        lines = [
            "set -euo pipefail",
            *(export_lines(self.variables) if exports else ()),
            *prelude,
            *self.fabric_lines(),
            self.program,
        ]
        return "\n".join(lines) + "\n"

    def fabric_lines(self) -> tuple[str, ...]:
        """Return the lines that set up the fabric's NCCL plugin, in the order that it needs."""
        path = self.library_path
        prepend = f'export LD_LIBRARY_PATH="{path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
        return (
            # The vendors' scripts read variables that may not be set.
            *(f"set +u; source {path}; set -u" for path in self.env_scripts),
            *export_lines(self.variables_after_scripts),
            *((prepend,) if path else ()),
        )


def export_lines(variables: tuple[EnvVar, ...]) -> tuple[str, ...]:
    """Return the variables as lines of a shell script."""
    return tuple(f"export {item.name}={shlex.quote(item.value)}" for item in variables)

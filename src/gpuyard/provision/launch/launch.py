"""How a program is started on every machine: image, environment, what is sourced first, and the command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc

__all__ = ["Launch", "Mount", "Variable", "export_lines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable with a fixed value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bucket, or a folder of one, as a folder of the machine."""

    name: str
    bucket: str
    path: Annotated[str, Doc("on the machine")]
    folder: Annotated[str, Doc("of the bucket; empty: all of it")] = ""
    is_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The start of one job or replica. The platform sets NODE_RANK, NODE_COUNT and MASTER_ADDR before `program`."""

    framework: Annotated[str, Doc("torch, jax, torch-xla, command, or the name of a serving engine")]
    image: str
    image_source: Annotated[str, Doc("where the default was read; empty: it was given")] = ""
    program: Annotated[str, Doc("shell lines, the same on every machine")]
    variables: tuple[Variable, ...] = ()
    sourced: Annotated[tuple[str, ...], Doc("scripts to source before the program")] = ()
    mounts: tuple[Mount, ...] = ()
    machine_count: Annotated[int, Doc("that work together: of the job, or of one replica")] = 1
    chips_per_machine: Annotated[float, Doc("accelerators of one machine that it takes")] = 0
    port: Annotated[int | None, Doc("of a server")] = None
    health: Annotated[str, Doc("path that answers 200 when the server is ready")] = ""
    notes: tuple[str, ...] = ()

    def script(self, *prelude: str, exports: bool = False) -> str:
        """The shell script: `prelude` sets the rank and the address, `exports` writes the variables too."""
        lines = [
            "set -euo pipefail",
            *(export_lines(self.variables) if exports else ()),
            *prelude,
            *(f"source {path}" for path in self.sourced),
            self.program,
        ]
        return "\n".join(lines) + "\n"


def export_lines(variables: tuple[Variable, ...]) -> tuple[str, ...]:
    """The variables as lines of a shell script."""
    return tuple(f"export {item.name}={shlex.quote(item.value)}" for item in variables)

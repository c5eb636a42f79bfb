"""Settings of the user's own program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVarSpec:
    """An environment variable."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """The user's own program, in any framework; the guide `train` explains the contract."""

    run: Annotated[tuple[str, ...], Doc("program and arguments")]
    env: Annotated[tuple[EnvVarSpec, ...], Doc("additional environment variables")] = ()

"""What a renderer gives: files with their paths, one after the other, so that no fabric is held as text in whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuyard.fabric.fabric import Fabric

__all__ = ["File", "SwitchOS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file to write: its path under the chosen folder, and its text."""

    path: str
    text: str


class SwitchOS(Protocol):
    """A switch operating system: writes the configuration of every switch of a fabric."""

    def render(self, fabric: Fabric) -> Iterator[File]:
        """The files of every switch, switch by switch."""
        ...

"""Links of a topology: cables, each between two ports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.units import BITS_PER_S, LENGTH


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class End:
    """One end of a cable: a port of a node."""

    node: str
    port: str

    def __str__(self) -> str:
        return f"{self.node} {self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A cable; `a` is always the end that sorts first."""

    a: End
    b: End
    speed_bits_per_s: Annotated[float, BITS_PER_S, Doc("per direction")]
    cable_m: Annotated[float | None, LENGTH, Doc("None if unknown")] = None

    def __post_init__(self) -> None:
        a, b = self.a, self.b
        if (b.node, b.port) < (a.node, a.port):
            object.__setattr__(self, "a", b)
            object.__setattr__(self, "b", a)
        # Equal topologies must be saved as equal bytes, so normalise 400 to 400.0 and -0.0 to 0.0.
        object.__setattr__(self, "speed_bits_per_s", self.speed_bits_per_s + 0.0)
        if self.cable_m is not None:
            object.__setattr__(self, "cable_m", self.cable_m + 0.0)

    def __str__(self) -> str:
        return f"{self.a} – {self.b}"

    @property
    def ends(self) -> tuple[End, End]:
        return self.a, self.b

    def end_at(self, node: str) -> End:
        return self.a if self.a.node == node else self.b

    def far_from(self, node: str) -> End:
        return self.b if self.a.node == node else self.a

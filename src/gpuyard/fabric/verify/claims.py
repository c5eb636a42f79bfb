"""What is said of a fabric against what it holds: numbers in its name, ports that do not add up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc
from gpuyard.fabric.verify.finding import Finding, error

__all__ = ["SizingClaim", "check_name", "check_sizing", "named_count"]

_NAMED = re.compile(
    r"(?<![\w.])(?P<count>\d[\d,]*)\s*(?P<scale>k)?[\s_x×-]*(?P<noun>dgx|hgx|servers?|nodes?|hosts?|gpus?)",
    re.IGNORECASE,
)


def named_count(name: str) -> tuple[int, str] | None:
    """The number of servers or GPUs in a name such as "AI Cluster 256 DGX-A100", and which of the two."""
    match = _NAMED.search(name.replace("_", " "))
    if match is None:
        return None
    count = int(match["count"].replace(",", "")) * (1024 if match["scale"] else 1)
    return count, "gpus" if match["noun"].lower().startswith("gpu") else "servers"


def check_name(name: str, servers: int, gpus: int) -> Iterator[Finding]:
    """A name that promises another number than the fabric holds."""
    named = named_count(name)
    if named is None:
        return
    count, noun = named
    found = gpus if noun == "gpus" else servers
    if count != found:
        yield error(
            "name", where=name, what=f"says {count} {noun}, and there are {found}", fix="rename it, or connect the rest"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingClaim:
    """A sizing as a page or a spreadsheet states it."""

    leaves: int
    down_per_leaf: int
    up_per_leaf: int
    spines: int
    gpus: int | None = None
    ports_per_spine: Annotated[int | None, Doc("as claimed")] = None
    down_bits_per_s: float = 400e9
    up_bits_per_s: float = 400e9
    oversubscription_ratio: Annotated[float, Doc("what it is meant to be")] = 1.0

    @property
    def real_ports_per_spine(self) -> float:
        """Links that end on a spine."""
        return self.leaves * self.up_per_leaf / self.spines

    @property
    def real_ratio(self) -> float:
        """Bandwidth below a leaf over bandwidth above it."""
        return self.down_per_leaf * self.down_bits_per_s / (self.up_per_leaf * self.up_bits_per_s)


def check_sizing(claim: SizingClaim, where: str = "sizing") -> Iterator[Finding]:
    """Numbers of a sizing that do not close."""
    if claim.ports_per_spine is not None and claim.ports_per_spine != claim.real_ports_per_spine:
        yield error(
            "sizing",
            where=where,
            what=f"{claim.leaves} leaves × {claim.up_per_leaf} uplinks / {claim.spines} spines is "
            f"{claim.real_ports_per_spine:g} ports a spine, and {claim.ports_per_spine} are claimed",
            fix="use more spines, or spines with more ports",
        )
    if claim.up_per_leaf % claim.spines:
        yield error(
            "sizing",
            where=where,
            what=f"{claim.up_per_leaf} uplinks cannot be spread evenly over {claim.spines} spines",
            fix="choose a number of spines that divides the uplinks",
        )
    if claim.real_ratio > claim.oversubscription_ratio * (1 + 1e-9):
        yield error(
            "sizing",
            where=where,
            what=f"{claim.real_ratio:g}:1 oversubscribed, and {claim.oversubscription_ratio:g}:1 is meant",
            fix="add uplinks, or connect fewer servers to a leaf",
        )
    if claim.gpus is not None and claim.gpus > claim.leaves * claim.down_per_leaf:
        yield error(
            "sizing",
            where=where,
            what=f"{claim.gpus} GPUs need as many ports, and the leaves have {claim.leaves * claim.down_per_leaf}",
            fix="add leaves",
        )

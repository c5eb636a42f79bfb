"""Consistency of claims with a fabric: counts in its name, and published sizings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.errors import Finding
from gpuyard.fabric.verify.finding import error

_NAMED = re.compile(
    r"(?<![\w.])(?P<count>\d[\d,]*)\s*(?P<scale>k)?[\s_x×-]*"
    r"(?P<noun>dgx|hgx|servers?|nodes?|hosts?|gpus?)",
    re.IGNORECASE,
)


def named_count(name: str) -> tuple[int, str] | None:
    """Return the count in a name such as "AI Cluster 256 DGX-A100", and "servers" or "gpus"."""
    match = _NAMED.search(name.replace("_", " "))
    if match is None:
        return None
    count = int(match["count"].replace(",", "")) * (1024 if match["scale"] else 1)
    return count, "gpus" if match["noun"].lower().startswith("gpu") else "servers"


def check_name(name: str, servers: int, gpus: int) -> Iterator[Finding]:
    """Report a name whose count of servers or GPUs is wrong."""
    named = named_count(name)
    if named is None:
        return
    count, noun = named
    actual = gpus if noun == "gpus" else servers
    if count != actual:
        yield error(
            "name",
            where=name,
            what=f"says {count} {noun}, and there are {actual}",
            fix="rename it, or connect the rest",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingClaim:
    """A sizing as stated on a page or in a spreadsheet."""

    leaves: int
    down_per_leaf: int
    up_per_leaf: int
    spines: int
    gpus: int | None = None
    ports_per_spine: Annotated[int | None, Doc("as claimed")] = None
    down_bits_per_s: float = 400e9
    up_bits_per_s: float = 400e9
    oversubscription_ratio: Annotated[float, Doc("intended")] = 1.0

    @property
    def real_ports_per_spine(self) -> float:
        return self.leaves * self.up_per_leaf / self.spines

    @property
    def real_ratio(self) -> float:
        """Downlink over uplink bandwidth of a leaf."""
        return self.down_per_leaf * self.down_bits_per_s / (self.up_per_leaf * self.up_bits_per_s)


def check_sizing(claim: SizingClaim, where: str = "sizing") -> Iterator[Finding]:
    """Report numbers of a sizing that contradict each other."""
    if claim.ports_per_spine is not None and claim.ports_per_spine != claim.real_ports_per_spine:
        yield error(
            "sizing",
            where=where,
            what=f"{claim.leaves} leaves × {claim.up_per_leaf} uplinks / {claim.spines} spines is"
            f" {claim.real_ports_per_spine:g} ports per spine,"
            f" and {claim.ports_per_spine} are claimed",
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
            what=f"{claim.real_ratio:g}:1 oversubscribed,"
            f" and {claim.oversubscription_ratio:g}:1 is intended",
            fix="add uplinks, or connect fewer servers per leaf",
        )
    ports = claim.leaves * claim.down_per_leaf
    if claim.gpus is not None and claim.gpus > ports:
        yield error(
            "sizing",
            where=where,
            what=f"{claim.gpus} GPUs need as many ports, and the leaves have {ports}",
            fix="add leaves",
        )

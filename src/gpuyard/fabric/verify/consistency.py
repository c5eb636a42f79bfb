"""Consistency of a fabric with its name: the counts of servers or GPUs in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

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

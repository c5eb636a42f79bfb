"""The stamp that everything carries: labels, or the same as a text in a description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import Doc, Plain

__all__ = ["Stamp", "stamp_of"]

TEXT = re.compile(r"managed-by=gpuyard owner=(\S+) plan-hash=([0-9a-f]+) expires-at=(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Who asked for it, by which decision, and until when."""

    owner: str
    plan_hash: Annotated[str, Doc("first 16 digits")]
    expires: Annotated[str, Doc("like 2026-11-20t1400z")]


def stamp_of(tree: Plain) -> Stamp | None:
    """The stamp of a request or of a resource, wherever in it the labels stand; None where it is not ours."""
    return next(_stamps(tree), None)


def _stamps(tree: Plain) -> Iterator[Stamp]:
    """Every stamp, outermost first."""
    if isinstance(tree, dict):
        if tree.get("managed-by") == "gpuyard" and "plan-hash" in tree:
            yield Stamp(
                owner=str(tree.get("owner", "")),
                plan_hash=str(tree["plan-hash"]),
                expires=str(tree.get("expires-at", "")),
            )
        # A description of a resource's own comes before what stands inside it.
        for child in sorted(tree.values(), key=lambda value: not isinstance(value, str)):
            yield from _stamps(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _stamps(child)
    elif isinstance(tree, str) and (found := TEXT.search(tree)):
        yield Stamp(owner=found.group(1), plan_hash=found.group(2), expires=found.group(3))

"""Ownership labels of a resource, or the same text in its description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain

# Lists of other resources inside a resource, whose labels say nothing about it.
EMBEDDED = ("nodePools", "deployedModels", "items")
DESCRIPTION = re.compile(r"managed-by=gpuyard owner=(\S+) plan-hash=([0-9a-f]+) expires-at=(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipLabels:
    """Who owns a resource, which plan created it, and when it expires."""

    owner: str
    plan_hash: Annotated[str, Doc("first 16 digits")]
    expires: Annotated[str, Doc("e.g. 2026-11-20t1400z")]


def ownership_labels(tree: Plain) -> OwnershipLabels | None:
    """Return the ownership labels of a request or resource, if gpuyard set any."""
    return next(_labels_in(tree), None)


def object_labels(tree: Plain) -> OwnershipLabels | None:
    """Return the ownership labels of a Kubernetes object itself, not of its pod template."""
    meta = tree.get("metadata") if isinstance(tree, dict) else None
    labels = meta.get("labels") if isinstance(meta, dict) else None
    return _from_labels(labels) if isinstance(labels, dict) else None


def _from_labels(labels: dict[str, Plain]) -> OwnershipLabels | None:
    if labels.get("managed-by") != "gpuyard" or "plan-hash" not in labels:
        return None
    return OwnershipLabels(
        owner=str(labels.get("owner", "")),
        plan_hash=str(labels["plan-hash"]),
        expires=str(labels.get("expires-at", "")),
    )


def _labels_in(tree: Plain) -> Iterator[OwnershipLabels]:
    if isinstance(tree, dict):
        if own := _from_labels(tree):
            yield own
        children = [child for key, child in tree.items() if key not in EMBEDDED]
        # The resource's own description comes before nested objects.
        for child in sorted(children, key=lambda value: not isinstance(value, str)):
            yield from _labels_in(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _labels_in(child)
    elif isinstance(tree, str) and (match := DESCRIPTION.search(tree)):
        owner, plan_hash, expires = match.groups()
        yield OwnershipLabels(owner=owner, plan_hash=plan_hash, expires=expires)

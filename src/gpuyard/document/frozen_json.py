"""JSON contents as a frozen value, for sections whose keys belong to another package."""

from __future__ import annotations

import json
import math
import typing
from dataclasses import dataclass

from gpuyard.document.tree import Mapping, Node, Scalar, Sequence
from gpuyard.errors import InputError

Plain: typing.TypeAlias = "dict[str, Plain] | list[Plain] | str | int | float | bool | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenJson:
    """A JSON object as canonical text: equal when the contents are equal, in any key order."""

    text: str = "{}"

    @classmethod
    def of(cls, tree: Plain) -> FrozenJson:
        return cls(
            text=json.dumps(
                tree, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        )

    def plain(self) -> Plain:
        contents: Plain = json.loads(self.text)
        return contents


def plain_tree(node: Node) -> Plain:
    """Return the node as dictionaries, lists and scalars, with dates as text."""
    if isinstance(node, Mapping):
        return {key: plain_tree(child) for key, child in node.items}
    if isinstance(node, Sequence):
        return [plain_tree(child) for child in node.items]
    assert isinstance(node, Scalar)
    if isinstance(node.value, float) and not math.isfinite(node.value):
        raise InputError([node.location.problem("not a finite number", "write a number")])
    if node.value is None or isinstance(node.value, str | int | float | bool):
        return node.value
    return node.text

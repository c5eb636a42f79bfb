"""Any keys and values, kept frozen: for a section whose keys belong to a room above."""

from __future__ import annotations

import json
import math
import typing
from dataclasses import dataclass

from gpuyard.document.tree import Mapping, Node, Scalar, Sequence
from gpuyard.errors import InputError

__all__ = ["Plain", "Settings", "plain_tree"]

Plain: typing.TypeAlias = "dict[str, Plain] | list[Plain] | str | int | float | bool | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A mapping of any keys as canonical JSON text: equal when the contents are, whatever their order."""

    text: str = "{}"

    @classmethod
    def of(cls, tree: Plain) -> Settings:
        """The settings that hold `tree`."""
        return cls(text=json.dumps(tree, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")))

    def plain(self) -> Plain:
        """The contents as dictionaries, lists and scalars."""
        contents: Plain = json.loads(self.text)
        return contents


def plain_tree(node: Node) -> Plain:
    """The node as dictionaries, lists and scalars, dates as text; InputError where a number is not finite."""
    if isinstance(node, Mapping):
        return {key: plain_tree(child) for key, child in node.items}
    if isinstance(node, Sequence):
        return [plain_tree(child) for child in node.items]
    assert isinstance(node, Scalar)
    if isinstance(node.value, float) and not math.isfinite(node.value):
        raise InputError([node.place.problem("not a finite number", "write a number")])
    if node.value is None or isinstance(node.value, str | int | float | bool):
        return node.value
    return node.text

"""Trees as flat lists of nodes, read from LightGBM's own dump with every digit."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document import Plain

__all__ = ["Node", "additions", "leaves", "nodes_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A split, or a leaf (feature below zero)."""

    tree: int
    number: int
    rows: int
    value: float  # threshold of a split: at or below it goes left; output of a leaf
    feature: int = -1
    left: int = 0
    right: int = 0
    missing_left: bool = False  # where a row without the number goes


def nodes_of(dump: dict[str, Plain]) -> Iterator[Node]:
    """The nodes of every tree, roots first."""
    for tree, info in enumerate(typing.cast(list[dict[str, Plain]], dump["tree_info"])):
        waiting, free = [(0, typing.cast(dict[str, Plain], info["tree_structure"]))], 1
        while waiting:
            number, found = waiting.pop()
            if "leaf_value" in found:
                rows = typing.cast(int, found.get("leaf_count", 0))
                yield Node(tree=tree, number=number, rows=rows, value=typing.cast(float, found["leaf_value"]))
                continue
            threshold = float(str(found["threshold"]))
            left, right = free, free + 1
            free += 2
            yield Node(
                tree=tree,
                number=number,
                rows=typing.cast(int, found["internal_count"]),
                value=threshold,
                feature=typing.cast(int, found["split_feature"]),
                left=left,
                right=right,
                # a column that had no gaps in training takes a gap as zero
                missing_left=bool(found["default_left"]) if found["missing_type"] == "NaN" else threshold >= 0.0,
            )
            waiting.append((left, typing.cast(dict[str, Plain], found["left_child"])))
            waiting.append((right, typing.cast(dict[str, Plain], found["right_child"])))


def leaves(nodes: tuple[Node, ...]) -> int:
    """How many leaves all trees have."""
    return sum(node.feature < 0 for node in nodes)


def additions(nodes: tuple[Node, ...], columns: float) -> float:
    """Additions that building the histograms of all trees takes: gradient and Hessian of every row and column.

    The root's rows are added up; of every split only the smaller side's, the other being the difference
    (Ke et al. 2017, LightGBM, section 2.1; LightGBM's documentation, Features, histogram subtraction).
    """
    rows = {(node.tree, node.number): node.rows for node in nodes}
    counted = 0
    for node in nodes:
        if node.number == 0 and node.feature >= 0:
            counted += node.rows
        if node.feature >= 0:
            counted += min(rows[node.tree, node.left], rows[node.tree, node.right])
    return 2.0 * columns * counted

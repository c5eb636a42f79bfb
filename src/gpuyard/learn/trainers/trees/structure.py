"""Trees as flat lists of nodes, read from LightGBM's model dump at full precision."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A split, or a leaf (negative feature)."""

    tree: int
    number: int
    rows: int
    value: float  # threshold of a split (at or below goes left), or output of a leaf
    feature: int = -1
    left: int = 0
    right: int = 0
    missing_left: bool = False  # where missing values go


def nodes_of(dump: dict[str, Plain]) -> Iterator[TreeNode]:
    """Yield the nodes of every tree, root first."""
    for tree, info in enumerate(typing.cast(list[dict[str, Plain]], dump["tree_info"])):
        stack, next_number = [(0, typing.cast(dict[str, Plain], info["tree_structure"]))], 1
        while stack:
            number, node = stack.pop()
            if "leaf_value" in node:
                rows = typing.cast(int, node.get("leaf_count", 0))
                yield TreeNode(
                    tree=tree,
                    number=number,
                    rows=rows,
                    value=typing.cast(float, node["leaf_value"]),
                )
                continue
            threshold = float(str(node["threshold"]))
            left, right = next_number, next_number + 1
            next_number += 2
            yield TreeNode(
                tree=tree,
                number=number,
                rows=typing.cast(int, node["internal_count"]),
                value=threshold,
                feature=typing.cast(int, node["split_feature"]),
                left=left,
                right=right,
                # A column without missing values in training treats a missing value as zero.
                missing_left=bool(node["default_left"])
                if node["missing_type"] == "NaN"
                else threshold >= 0.0,
            )
            stack.append((left, typing.cast(dict[str, Plain], node["left_child"])))
            stack.append((right, typing.cast(dict[str, Plain], node["right_child"])))


def leaves(nodes: tuple[TreeNode, ...]) -> int:
    """Return the number of leaves of all trees."""
    return sum(node.feature < 0 for node in nodes)


def additions(nodes: tuple[TreeNode, ...], columns: float) -> float:
    """Return the additions for all histograms: gradient and Hessian per row and column.

    Only the root and the smaller side of every split are summed; the other side is the difference
    (Ke et al. 2017, LightGBM, section 2.1; LightGBM's documentation, histogram subtraction).
    """
    rows = {(node.tree, node.number): node.rows for node in nodes}
    row_count = 0
    for node in nodes:
        if node.number == 0 and node.feature >= 0:
            row_count += node.rows
        if node.feature >= 0:
            row_count += min(rows[node.tree, node.left], rows[node.tree, node.right])
    return 2.0 * columns * row_count

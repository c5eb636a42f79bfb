"""Trees as an ONNX graph that takes float32 rows to the same leaves as LightGBM.

LightGBM's thresholds are float64. Rounding one to the nearest float32 sends rows that lie on it the other way; so each
becomes the largest float32 that is not above it, for which `x <= threshold` says the same of every float32. LightGBM
takes numbers as small as 1e-35 for zero (kZeroThreshold), and so do the thresholds beside zero.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuyard.learn.networks.onnx_graph import save_graph
from gpuyard.learn.trainer import Exported, Table
from gpuyard.learn.trainers.trees.structure import Node

__all__ = ["export_trees", "threshold32"]

ZERO = float(np.float32(1e-35))


def threshold32(value: float) -> float:
    """The largest float32 that goes left of the value."""
    if -ZERO <= value < 0:
        return float(np.nextafter(np.float32(-ZERO), np.float32(-np.inf)))
    if 0 <= value < ZERO:
        return ZERO
    with np.errstate(over="ignore"):
        near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))


def export_trees(nodes: tuple[Node, ...], table: Table, targets: int, folder: Path, framework: str) -> Exported:
    """Writes model.onnx; the trees take turns over the targets."""
    from onnx import helper, numpy_helper

    graph_nodes = [_ensemble(nodes, targets)]
    initial = []
    if table.problem == "classification":
        if targets == 1:
            initial.append(numpy_helper.from_array(np.array(1.0, dtype=np.float32), "one"))
            graph_nodes += [
                helper.make_node("Sigmoid", ["raw"], ["second"]),
                helper.make_node("Sub", ["one", "second"], ["first"]),
                helper.make_node("Concat", ["first", "second"], ["probabilities"], axis=1),
            ]
        else:
            graph_nodes.append(helper.make_node("Softmax", ["raw"], ["probabilities"], axis=1))
    return save_graph("trees", graph_nodes, initial, table, folder, framework, "raw")


def _ensemble(nodes: tuple[Node, ...], targets: int) -> object:
    """All trees in one node of the graph."""
    from onnx import helper

    leaves = [node for node in nodes if node.feature < 0]
    return helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["raw"],
        domain="ai.onnx.ml",
        n_targets=targets,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=[node.tree for node in nodes],
        nodes_nodeids=[node.number for node in nodes],
        nodes_featureids=[max(0, node.feature) for node in nodes],
        nodes_modes=["LEAF" if node.feature < 0 else "BRANCH_LEQ" for node in nodes],
        nodes_values=[0.0 if node.feature < 0 else threshold32(node.value) for node in nodes],
        nodes_truenodeids=[node.left for node in nodes],
        nodes_falsenodeids=[node.right for node in nodes],
        nodes_missing_value_tracks_true=[int(node.missing_left) for node in nodes],
        nodes_hitrates=[1.0] * len(nodes),
        target_treeids=[node.tree for node in leaves],
        target_nodeids=[node.number for node in leaves],
        target_ids=[node.tree % targets for node in leaves],
        target_weights=[node.value for node in leaves],
    )

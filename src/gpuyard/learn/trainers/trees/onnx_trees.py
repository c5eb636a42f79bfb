"""Export trees as an ONNX graph that sends float32 rows to the same leaves as LightGBM.

LightGBM's thresholds are float64. Rounding one to the nearest float32 can send rows that lie on it
the other way, so each becomes the largest float32 that is not above it: `x <= threshold` is then
the same for every float32 x. LightGBM treats magnitudes up to 1e-35 as zero (kZeroThreshold), and
so do the thresholds next to zero.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpuyard.learn.networks.onnx_graph import save_graph
from gpuyard.learn.trainer import Exported, TabularData
from gpuyard.learn.trainers.trees.structure import TreeNode

ZERO = float(np.float32(1e-35))


def threshold32(value: float) -> float:
    """Return the largest float32 that goes left of the threshold."""
    if -ZERO <= value < 0:
        return float(np.nextafter(np.float32(-ZERO), np.float32(-np.inf)))
    if 0 <= value < ZERO:
        return ZERO
    with np.errstate(over="ignore"):
        near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))


def export_trees(
    nodes: tuple[TreeNode, ...], table: TabularData, targets: int, folder: Path, framework: str
) -> Exported:
    """Write model.onnx; trees take turns over the targets."""
    from onnx import helper, numpy_helper

    graph_nodes = [_ensemble(nodes, targets)]
    initializers = []
    if table.problem == "classification":
        if targets == 1:
            initializers.append(numpy_helper.from_array(np.array(1.0, dtype=np.float32), "one"))
            graph_nodes += [
                helper.make_node("Sigmoid", ["raw"], ["second"]),
                helper.make_node("Sub", ["one", "second"], ["first"]),
                helper.make_node("Concat", ["first", "second"], ["probabilities"], axis=1),
            ]
        else:
            graph_nodes.append(helper.make_node("Softmax", ["raw"], ["probabilities"], axis=1))
    return save_graph("trees", graph_nodes, initializers, table, folder, framework, "raw")


def _ensemble(nodes: tuple[TreeNode, ...], targets: int) -> object:
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

"""What is wired: nodes, ports, links and planes; paths over them; what was built against what was designed."""

from gpuyard.topology.columns import from_json, from_plain, to_json, to_plain
from gpuyard.topology.diff import LinkChange, Miswiring, NodeChange, TopologyDiff, diff
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import ROLES, SWITCH_ROLES, TIERS, Node, Port, Role
from gpuyard.topology.paths import (
    Path,
    Paths,
    Reach,
    Rule,
    components,
    hop_count,
    is_connected,
    is_up_down,
    next_links,
    path_count,
    reach,
    shortest_paths,
)
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

__all__ = [
    "ROLES", "SWITCH_ROLES", "TIERS", "End", "Link", "LinkChange", "Miswiring", "Node", "NodeChange", "Path",
    "Paths", "Port", "Reach", "Role", "Rule", "Topology", "TopologyDiff", "Wiring", "components", "diff",
    "from_json", "from_plain", "hop_count", "is_connected", "is_up_down", "next_links", "path_count", "reach",
    "shortest_paths", "to_json", "to_plain",
]  # fmt: skip

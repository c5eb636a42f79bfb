"""Devices of a fabric grouped into pods, stripes and tiers."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology

Stripe = tuple[str, list[Node], list[Node]]  # label, leaves, servers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Pods:
    """Devices grouped into pods and stripes."""

    cores: list[Node]
    pods: list[tuple[list[Node], list[Stripe]]]  # spines; stripes: label, leaves, servers


def pods_of(topology: Topology) -> Pods:
    """Group devices into pods and stripes by the links between them."""
    nodes = {node.name: node for node in topology.nodes}
    leaf_of: dict[str, str] = {}
    joined: dict[str, set[str]] = {}
    for link in topology.links:
        a, b = nodes[link.a.node], nodes[link.b.node]
        lower, upper = (a, b) if a.tier < b.tier else (b, a)
        if lower.role == "server" and upper.role == "leaf":
            leaf_of.setdefault(lower.name, upper.name)
        elif lower.role == "leaf" and upper.role == "spine":
            joined.setdefault(lower.name, set()).add(upper.name)
    stripes: dict[str, tuple[list[Node], list[Node]]] = {}
    for node in sorted((node for node in topology.nodes if node.role == "leaf"), key=_leaf_order):
        stripes.setdefault(_stripe(node), ([], []))[0].append(node)
    for node in topology.nodes:
        if node.role == "server":
            home = _stripe(nodes[leaf_of[node.name]]) if node.name in leaf_of else ""
            stripes.setdefault(home, ([], []))[1].append(node)
    pods: list[tuple[set[str], list[Stripe]]] = []
    for label, (leaves, servers) in stripes.items():
        spines = set().union(*(joined.get(leaf.name, set()) for leaf in leaves))
        pod = next((pod for pod in pods if pod[0] & spines or not (pod[0] or spines)), None)
        if pod is None:
            pods.append((spines, [(label, leaves, servers)]))
        else:
            pod[0].update(spines)
            pod[1].append((label, leaves, servers))
    loose = [
        node
        for node in topology.nodes
        if node.role == "spine" and not any(node.name in pod[0] for pod in pods)
    ]
    placed = [([nodes[name] for name in sorted(pod[0])], pod[1]) for pod in pods]
    if loose:
        placed.append((loose, []))
    return Pods(cores=[node for node in topology.nodes if node.role == "core"], pods=placed)


def _leaf_order(node: Node) -> tuple[int, int, int, str]:
    stripe, plane, rail = (
        -1 if value is None else value for value in (node.stripe, node.plane, node.rail)
    )
    return stripe, plane, rail, node.name


def _stripe(leaf: Node) -> str:
    return "leaves" if leaf.stripe is None else f"stripe {leaf.stripe + 1}"

"""Matches reported device and port names to the design, and infers roles from device names."""

from __future__ import annotations

import re

from gpuyard.fabric.imports.observed_cable import ReportedPort
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port, Role
from gpuyard.topology.topology import Topology

# The first match counts: "superspine" is before "spine".
_ROLES: tuple[tuple[str, Role], ...] = (
    (r"super-?spine|\bcore|\bss\d", "core"),
    (r"spine|\bagg|\bctsw", "spine"),
    (r"leaf|\btor|\brtsw|\brail", "leaf"),
    (r"server|\bsrv|host|dgx|hgx|gpu|node|compute|worker", "server"),
)
# The port description in gpuyard's configurations.
_DESCRIPTION = re.compile(r"to (?P<node>\S+) (?P<port>\S+)")


class Design:
    """The design, indexed by the names that reports use."""

    def __init__(self, topology: Topology | None) -> None:
        nodes = topology.nodes if topology else ()
        self.nodes = {node.name: node for node in nodes}
        self.folded = {node.name.casefold(): node.name for node in nodes}
        self.links: dict[End, Link] = {
            end: link for link in (topology.links if topology else ()) for end in link.ends
        }
        self.ports = {(end.node, end.port) for end in self.links}
        self.ports |= {(node.name, port.name) for node in nodes for port in node.ports}

    def device(self, name: str) -> str:
        """Return the design's name of a device, ignoring case and domain; else the name itself."""
        if name in self.nodes:
            return name
        short = name.casefold().partition(".")[0]
        return self.folded.get(name.casefold()) or self.folded.get(short) or name

    def end(self, reported: ReportedPort) -> End:
        """Return the port, by any of its names or by a description that names its far end."""
        device = self.device(reported.device)
        names = (reported.port, *reported.others)
        for name in names:
            if (device, name) in self.ports:
                return End(node=device, port=name)
        for name in names:
            match = _DESCRIPTION.fullmatch(name)
            if match is None:
                continue
            peer = self.device(match["node"])
            link = self.links.get(End(node=peer, port=match["port"]))
            if link is not None and link.far_from(peer).node == device:
                return link.far_from(peer)
        return End(node=device, port=reported.port)


def node_from_name(name: str, ports: set[str]) -> Node | None:
    """Infer role, stripe, rail and plane from a name such as leaf-s1-r3; None without a role."""
    role = next((role for pattern, role in _ROLES if re.search(pattern, name, re.IGNORECASE)), None)
    if role is None:
        return None
    numbers = {letter: _number(name, letter) for letter in "srp"}
    return Node(
        name=name,
        role=role,
        stripe=numbers["s"] if role == "leaf" else None,
        rail=numbers["r"] if role == "leaf" else None,
        plane=numbers["p"] if role != "server" else None,
        ports=tuple(_nic(port) for port in sorted(ports))
        if role == "server" and all(map(_rail, ports))
        else (),
    )


def _number(name: str, letter: str) -> int | None:
    match = re.search(
        rf"(?:^|[-_.]){letter}(?:tripe|ail|lane)?(\d+)(?=$|[-_.])", name, re.IGNORECASE
    )
    return int(match[1]) - 1 if match and int(match[1]) else None


def _rail(port: str) -> re.Match[str] | None:
    return re.fullmatch(r"(?:gpu|rail|rdma|rocep?|ib|mlx5_)(\d+)(?:_eth|_np\d)?(?:_p(\d+))?", port)


def _nic(port: str) -> Port:
    match = _rail(port)
    assert match is not None
    return Port(name=port, rail=int(match[1]), plane=int(match[2]) if match[2] else None)

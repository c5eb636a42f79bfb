"""Which device of the design a name means, which port of it a text means, and what a name alone tells of its bearer."""

from __future__ import annotations

import re

from gpuyard.fabric.imports.sighting import Place
from gpuyard.topology import End, Link, Node, Port, Role, Topology

__all__ = ["Design", "node_from_name"]

# The first that fits; "superspine" must be met before "spine".
_ROLES: tuple[tuple[str, Role], ...] = (
    (r"super-?spine|\bcore|\bss\d", "core"),
    (r"spine|\bagg|\bctsw", "spine"),
    (r"leaf|\btor|\brtsw|\brail", "leaf"),
    (r"server|\bsrv|host|dgx|hgx|gpu|node|compute|worker", "server"),
)  # fmt: skip
_DESCRIPTION = re.compile(r"to (?P<node>\S+) (?P<port>\S+)")  # what gpuyard's configurations write beside a port


class Design:
    """The design, indexed by the spellings that reports use."""

    def __init__(self, topology: Topology | None) -> None:
        nodes = topology.nodes if topology else ()
        self.nodes = {node.name: node for node in nodes}
        self.folded = {node.name.casefold(): node.name for node in nodes}
        self.links: dict[End, Link] = {end: link for link in (topology.links if topology else ()) for end in link.ends}
        self.ports = {(end.node, end.port) for end in self.links}
        self.ports |= {(node.name, port.name) for node in nodes for port in node.ports}

    def device(self, name: str) -> str:
        """The design's name for a device; without case and domain if need be, the name itself if it has none."""
        if name in self.nodes:
            return name
        short = name.casefold().partition(".")[0]
        return self.folded.get(name.casefold()) or self.folded.get(short) or name

    def end(self, place: Place) -> End:
        """The port that a place means: by any of its spellings, or by a description that names its far end."""
        device = self.device(place.device)
        for text in (place.port, *place.others):
            if (device, text) in self.ports:
                return End(node=device, port=text)
        for text in (place.port, *place.others):
            told = _DESCRIPTION.fullmatch(text)
            link = self.links.get(End(node=self.device(told["node"]), port=told["port"])) if told else None
            if link is not None and told is not None:
                far = link.far_from(self.device(told["node"]))
                if far.node == device:
                    return far
        return End(node=device, port=place.port)


def node_from_name(name: str, ports: set[str]) -> Node | None:
    """What a name such as leaf-s1-r3 tells: role, stripe, rail and plane, which count from 0; None if no role."""
    role = next((role for pattern, role in _ROLES if re.search(pattern, name, re.IGNORECASE)), None)
    if role is None:
        return None
    numbers = {letter: _number(name, letter) for letter in "srp"}
    return Node(
        name=name, role=role,
        stripe=numbers["s"] if role == "leaf" else None,
        rail=numbers["r"] if role == "leaf" else None,
        plane=numbers["p"] if role != "server" else None,
        ports=tuple(_nic(port) for port in sorted(ports)) if role == "server" and all(map(_rail, ports)) else (),
    )  # fmt: skip


def _number(name: str, letter: str) -> int | None:
    """The number behind a letter that stands alone in a name, less one."""
    found = re.search(rf"(?:^|[-_.]){letter}(?:tripe|ail|lane)?(\d+)(?=$|[-_.])", name, re.IGNORECASE)
    return int(found[1]) - 1 if found and int(found[1]) else None


def _rail(port: str) -> re.Match[str] | None:
    """The rail in a NIC's name: gpu3_eth is of rail 3."""
    return re.fullmatch(r"(?:gpu|rail|rdma|rocep?|ib|mlx5_)(\d+)(?:_eth|_np\d)?(?:_p(\d+))?", port)


def _nic(port: str) -> Port:
    """A NIC with the rail that its name tells."""
    found = _rail(port)
    assert found is not None
    return Port(name=port, rail=int(found[1]), plane=int(found[2]) if found[2] else None)

"""Times and memory of the topology room on a fabric of 32,768 GPUs: `python bench/topology.py [stripes]`.

The shape is the largest rail-optimised one of Juniper's validated design (AI data centre, "Scaling", table 18):
64 stripes of 64 servers and 8 leaves, 64 spines, one link between each leaf and each spine.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from gpuyard.topology.columns import from_json, to_json
from gpuyard.topology.diff import diff
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

T = TypeVar("T")
RAILS, SERVERS_PER_STRIPE, SPINES = 8, 64, 64
SPEED_BITS_PER_S = 400e9
REPEATS = 3


def parts(stripes: int) -> tuple[tuple[Node, ...], tuple[Link, ...]]:
    """Nodes and links of the fabric."""
    nics = tuple(Port(name=f"gpu{rail}", rail=rail) for rail in range(RAILS))
    down = [f"et-0/0/{port}:0" for port in range(SERVERS_PER_STRIPE)]
    up = [f"et-0/0/{port}:1" for port in range(SPINES)]
    spine_ports = [f"et-{card}/0/{port}" for card in range(stripes) for port in range(RAILS)]
    spines = [f"spine-{spine:02}" for spine in range(SPINES)]
    nodes = [Node(name=name, role="spine") for name in spines]
    links: list[Link] = []
    for stripe in range(stripes):
        leaves = [f"leaf-{stripe:02}-{rail}" for rail in range(RAILS)]
        nodes += [
            Node(name=leaf, role="leaf", stripe=stripe, rail=rail)
            for rail, leaf in enumerate(leaves)
        ]
        for place in range(SERVERS_PER_STRIPE):
            name = f"server-{stripe:02}-{place:02}"
            nodes.append(Node(name=name, role="server", stripe=stripe, ports=nics))
            links += [
                _link(name, nics[rail].name, leaf, down[place], 3.0)
                for rail, leaf in enumerate(leaves)
            ]
        for rail, leaf in enumerate(leaves):
            port = spine_ports[stripe * RAILS + rail]
            links += [
                _link(leaf, up[index], spine, port, 30.0) for index, spine in enumerate(spines)
            ]
    return tuple(nodes), tuple(links)


def _link(node: str, port: str, far_node: str, far_port: str, cable_m: float) -> Link:
    """A cable between two ports."""
    return Link(
        a=End(node=node, port=port),
        b=End(node=far_node, port=far_port),
        speed_bits_per_s=SPEED_BITS_PER_S,
        cable_m=cable_m,
    )


def measured(what: str, make: Callable[[], T]) -> T:
    """The result, after printing the best time of a few and the memory that the result holds."""
    best_s = float("inf")
    for _ in range(REPEATS):
        gc.collect()
        start_s = time.perf_counter()
        result = make()
        best_s = min(best_s, time.perf_counter() - start_s)
        del result
    gc.collect()
    tracemalloc.start()
    result = make()
    gc.collect()
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{what:<44}{best_s * 1e3:>10.1f} ms {held_bytes / 1e6:>9.1f} MB")
    return result


def main() -> None:
    """Prints the table."""
    stripes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    print(f"{'':<44}{'best of 3':>13} {'result holds':>12}")
    nodes, links = measured("nodes and links made", lambda: parts(stripes))
    shuffled = list(links)
    random.Random(0).shuffle(shuffled)
    topology = measured(
        "topology: checked and ordered", lambda: Topology(nodes=nodes, links=tuple(shuffled))
    )
    wiring = measured("wiring: indexed", lambda: Wiring.of(topology))

    spine = "spine-00"
    measured("wiring without a link", lambda: wiring.without(links=[links[-1]]))
    measured("wiring without a spine", lambda: wiring.without(nodes=[spine]))
    failed = measured("topology without a spine", lambda: topology.without(nodes=[spine]))

    text = measured("to JSON", lambda: to_json(topology))
    copy = measured("from JSON", lambda: from_json(text))
    measured("equality with a copy", lambda: topology == copy)
    measured("diff with a copy", lambda: diff(topology, copy))
    measured("diff with a spine missing", lambda: diff(topology, failed))
    print(f"{len(nodes):,} nodes, {len(links):,} links; JSON {len(text.encode()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

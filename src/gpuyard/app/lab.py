"""`gpuyard lab`: a fabric booted on this host, looked at, broken, mended, measured and taken down."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.collectives import Collective, simulate_collective
from gpuyard.app.fabric import demand_of_file, design_fabric, read_fabric
from gpuyard.app.shapes import Site
from gpuyard.app.simulate import Play
from gpuyard.catalog import load_catalog
from gpuyard.document import load_json
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric import Fabric, ProviderFabric
from gpuyard.fabric.verify import Verification
from gpuyard.lab import Lab, boot, lab_of, labs, remove, scaled
from gpuyard.lab.allreduce import Measured
from gpuyard.lab.results import Bandwidth, Raised
from gpuyard.lab.saved import forget, keep, recall
from gpuyard.lab.state import Status, status, wait
from gpuyard.lab.verify import read_running, verify_lab
from gpuyard.lab.work import start
from gpuyard.simulate.network import from_topology
from gpuyard.topology import Link

__all__ = [
    "Wanted", "lab_down", "lab_fabric", "lab_status", "lab_up", "lab_verify", "measure_lab",
    "predicted_s",
]  # fmt: skip

Tell = Callable[[str], None]
# Of what tbf counts on a wire of 9,000-byte packets: 20 IPv4, 32 TCP with timestamps, 14 Ethernet.
PAYLOAD_RATIO = (9000 - 52) / (9000 + 14)
CONVERGE_S, MEASURE_S = 60.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A lab as it is asked for."""

    name: str = "lab"
    servers_count: int | None = None  # None: as designed, at most eight
    rate_bits_per_s: float = 200e6
    bfd_interval_s: float | None = None
    crossed: tuple[str, str] | None = None  # two switches whose first uplinks are exchanged


def lab_fabric(path: Path, servers_count: int | None, layers: Sequence[Path] = ()) -> Fabric | Infeasible:
    """The fabric of a file at the size of this host."""
    if path.suffix == ".json":
        fabric: Fabric | ProviderFabric | Infeasible = read_fabric(path)
    else:
        demand = demand_of_file(path, layers)
        fabric = demand if isinstance(demand, Infeasible) else design_fabric(demand, layers)
    if isinstance(fabric, ProviderFabric):
        raise InputError.one(str(path), f"the fabric of {fabric.machine} is its provider's", "use a fabric of your own")
    if isinstance(fabric, Infeasible):
        return fabric
    count = min(fabric.demand.server_count, 8) if servers_count is None else servers_count
    return scaled(fabric, count, load_catalog(layers))


def lab_up(path: Path, wanted: Wanted, layers: Sequence[Path] = (), tell: Tell = lambda _: None) -> Raised | Infeasible:
    """Boots the fabric of a file and waits until its routes are all there."""
    fabric = lab_fabric(path, wanted.servers_count, layers)
    if isinstance(fabric, Infeasible):
        return fabric
    lab = lab_of(
        fabric, name=wanted.name, rate_bits_per_s=wanted.rate_bits_per_s, bfd_interval_s=wanted.bfd_interval_s,
        crossed=_crossed(fabric, wanted.crossed),
    )  # fmt: skip
    size = fabric.size
    words = f"{size.spines} spines, {size.leaves} leaves, {size.nodes} servers of {fabric.demand.rails} rails"
    tell(f"booting {words}")
    started_s = time.monotonic()
    if wanted.name not in labs():
        keep(lab)
    boot(lab)
    boot_s = time.monotonic() - started_s
    tell("waiting for the routes")
    converge_s = None if wanted.crossed else wait(lab, CONVERGE_S)
    return Raised(status=status(lab), fabric=words, boot_s=boot_s, converge_s=converge_s, notes=_notes(path, fabric))


def _notes(path: Path, fabric: Fabric) -> tuple[str, ...]:
    """What was changed to fit this host."""
    if path.suffix == ".json":
        servers = read_fabric(path).demand.server_count
        if servers != fabric.demand.server_count:
            return (
                f"{servers} servers are designed, {fabric.demand.server_count} stand here: rails and stripes are kept",
            )
    return ()


def _crossed(fabric: Fabric, names: tuple[str, str] | None) -> tuple[tuple[int, int], ...]:
    """The first uplinks of two switches, by number."""
    if names is None:
        return ()
    places: list[int] = []
    for name in names:
        device = next((device for device in fabric.switches if device.name == name), None)
        if device is None or not device.uplinks:
            known = ", ".join(device.name for device in fabric.switches if device.uplinks)
            raise InputError.one("--cross", f'"{name}" is no switch with uplinks', f"use two of: {known}")
        peer = device.uplinks[0].peer
        places.append(next(i for i, link in enumerate(fabric.topology.links) if peer in (link.a, link.b)))
    return ((places[0], places[1]),)


def lab_status(name: str) -> Status:
    """Sessions, routes and equal paths of the running lab."""
    return status(recall(name))


def lab_verify(name: str) -> Verification:
    """The running lab against design and computation."""
    return verify_lab(read_running(recall(name)))


def lab_down(name: str | None) -> tuple[str, ...]:
    """Takes a lab down, or all that stand; gives their names."""
    names = labs() if name is None else (name,)
    gone = tuple(each for each in names if remove(each))
    for each in names:
        forget(each)
    return gone


def predicted_s(lab: Lab, size_bytes: float) -> float:
    """The simulated time of a ring all-reduce of the servers, a rail's share of the data on one rail of the lab."""
    fabric = lab.fabric
    rates = {frozenset((wire.a, wire.b)): wire.rate_bits_per_s * PAYLOAD_RATIO for wire in lab.wires}
    others = [device.name for device in fabric.of_role("leaf") if device.rail not in (None, 0)]
    kept = fabric.topology.without(nodes=others)
    links = tuple(_at_rate(link, rates[frozenset(link.ends)]) for link in kept.links)
    network = from_topology(replace(kept, links=links), port_delay_s=0.0, unknown_cable_m=1.0)
    rails = max(1, fabric.demand.rails) if others else 1
    site = Site(network=network, label=f"lab {lab.name}", topology=kept)
    asked = Collective(name="all-reduce", size_bytes=size_bytes / rails, algorithm="ring")
    return simulate_collective(site, asked, Play(engine="flow", balancing="ecmp")).summary.completion_s


def _at_rate(link: Link, rate_bits_per_s: float) -> Link:
    """The cable at the rate that it has in the lab."""
    return replace(link, speed_bits_per_s=rate_bits_per_s)


def measure_lab(name: str, sizes_bytes: Sequence[int]) -> tuple[Bandwidth, ...]:
    """All-reduce between all servers over all rails: gloo's time, and the simulator's for the same links."""
    lab = recall(name)
    with tempfile.TemporaryDirectory(prefix="gpuyard-lab-") as folder:
        out = Path(folder) / "measured.json"
        words = [sys.executable, "-m", "gpuyard.lab.allreduce", str(out), *map(str, sizes_bytes)]
        start(lab, words, Path(folder), servers=lab.fabric.servers).wait(MEASURE_S)
        found = load_json(out.read_text(encoding="utf-8"), Measured, str(out))
    rows = []
    for point in found.points:
        took_s = predicted_s(lab, point.size_bytes)
        factor = point.bus_bytes_per_s * point.time_s
        rows.append(Bandwidth(
            size_bytes=point.size_bytes, measured_s=point.time_s, predicted_s=took_s,
            measured_bus_bytes_per_s=point.bus_bytes_per_s, predicted_bus_bytes_per_s=factor / took_s,
        ))  # fmt: skip
    return tuple(rows)

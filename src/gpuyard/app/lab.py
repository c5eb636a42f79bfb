"""`gpuyard lab`: emulate a fabric on this host, inspect it, fail links, measure, remove it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.fabric import design_fabric, read_fabric, read_request
from gpuyard.catalog.load import load_catalog
from gpuyard.document.encode import load_json_file
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.provider import ProviderFabric
from gpuyard.fabric.verify.finding import Verification
from gpuyard.lab.allreduce import AllReduceResult
from gpuyard.lab.boot import boot, labs, remove
from gpuyard.lab.host import require
from gpuyard.lab.links import Lab, lab_of
from gpuyard.lab.processes import start
from gpuyard.lab.results import Bandwidth, LabStarted
from gpuyard.lab.saved import delete, load, save
from gpuyard.lab.scale import scaled
from gpuyard.lab.state import LabStatus, status, wait
from gpuyard.lab.verify import read_running, verify_lab
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.network import from_topology
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.topology.links import Link

LabProgress = Callable[[str], None]
# Of what tbf counts on a wire of 9,000-byte packets: 20 IPv4, 32 TCP with timestamps, 14 Ethernet.
PAYLOAD_RATIO = (9000 - 52) / (9000 + 14)
CONVERGE_S, MEASURE_S = 60.0, 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """Options of a lab."""

    name: str = "lab"
    servers_count: int | None = None  # None: as designed, at most eight
    rate_bits_per_s: float = 200e6
    bfd_interval_s: float | None = None
    crossed: tuple[str, str] | None = None  # two switches whose first uplinks are exchanged


def lab_fabric(
    path: Path, servers_count: int | None, layers: Sequence[Path] = ()
) -> Fabric | Infeasible:
    """The fabric of a file, scaled down to this host."""
    if path.suffix == ".json":
        fabric: Fabric | ProviderFabric | Infeasible = read_fabric(path)
        catalog = load_catalog(layers)
    else:
        request = read_request(path, layers)
        if isinstance(request, Infeasible):
            return request
        catalog = request.catalog
        fabric = design_fabric(request.demand, catalog)
    if isinstance(fabric, ProviderFabric):
        raise InputError.one(
            str(path), f"the fabric of {fabric.machine} is provider-managed", "use your own fabric"
        )
    if isinstance(fabric, Infeasible):
        return fabric
    count = min(fabric.demand.server_count, 8) if servers_count is None else servers_count
    return scaled(fabric, count, catalog)


def lab_up(
    path: Path,
    wanted: LabOptions,
    layers: Sequence[Path] = (),
    on_progress: LabProgress = lambda _: None,
) -> LabStarted | Infeasible:
    """Boot the fabric of a file and wait until its routes converge."""
    fabric = lab_fabric(path, wanted.servers_count, layers)
    if isinstance(fabric, Infeasible):
        return fabric
    lab = lab_of(
        fabric,
        name=wanted.name,
        rate_bits_per_s=wanted.rate_bits_per_s,
        bfd_interval_s=wanted.bfd_interval_s,
        crossed=_crossed(fabric, wanted.crossed),
    )
    require()  # before the lab is saved
    size = fabric.size
    switches = f"{size.spines} spines, {size.leaves} leaves"
    summary = f"{switches}, {size.nodes} servers of {fabric.demand.rails} rails"
    on_progress(f"booting {summary}")
    started_s = time.monotonic()
    if wanted.name not in labs():
        save(lab)
    boot(lab)
    boot_s = time.monotonic() - started_s
    on_progress("waiting for routes to converge")
    converge_s = None if wanted.crossed else wait(lab, CONVERGE_S)
    return LabStarted(
        status=status(lab),
        fabric=summary,
        boot_s=boot_s,
        converge_s=converge_s,
        notes=_notes(path, fabric),
    )


def _notes(path: Path, fabric: Fabric) -> tuple[str, ...]:
    if path.suffix == ".json":
        servers = read_fabric(path).demand.server_count
        if servers != fabric.demand.server_count:
            booted = fabric.demand.server_count
            return (f"{booted} of {servers} servers are booted; rails and stripes are as designed",)
    return ()


def _crossed(fabric: Fabric, names: tuple[str, str] | None) -> tuple[tuple[int, int], ...]:
    """Numbers of the first uplinks of two switches."""
    if names is None:
        return ()
    places: list[int] = []
    for name in names:
        device = next((device for device in fabric.switches if device.name == name), None)
        if device is None or not device.uplinks:
            known = ", ".join(device.name for device in fabric.switches if device.uplinks)
            raise InputError.one(
                "--miswire", f'"{name}" is not a switch with uplinks', f"use two of: {known}"
            )
        peer = device.uplinks[0].peer
        places.append(
            next(i for i, link in enumerate(fabric.topology.links) if peer in (link.a, link.b))
        )
    return ((places[0], places[1]),)


def lab_status(name: str) -> LabStatus:
    """BGP sessions, routes and ECMP paths of the running lab."""
    return status(load(name))


def lab_verify(name: str) -> Verification:
    """Verify the running lab against the design and the computed routes."""
    return verify_lab(read_running(load(name)))


def lab_down(name: str | None) -> tuple[str, ...]:
    """Remove a lab, or all running ones; return their names."""
    names = labs() if name is None else (name,)
    gone = tuple(running for running in names if remove(running))
    for running in names:
        delete(running)
    return gone


def predicted_s(lab: Lab, size_bytes: float) -> float:
    """Simulated time of a ring all-reduce between the servers of the lab."""
    fabric = lab.fabric
    rates = {
        frozenset((link.a, link.b)): link.rate_bits_per_s * PAYLOAD_RATIO for link in lab.links
    }
    others = [device.name for device in fabric.of_role("leaf") if device.rail not in (None, 0)]
    one_rail = fabric.topology.without(nodes=others)
    links = tuple(_at_rate(link, rates[frozenset(link.ends)]) for link in one_rail.links)
    network = from_topology(replace(one_rail, links=links), port_delay_s=0.0, unknown_cable_m=1.0)
    rails = max(1, fabric.demand.rails) if others else 1
    site = NetworkSetup(network=network, label=f"lab {lab.name}", topology=one_rail)
    collective = Collective(name="all-reduce", size_bytes=size_bytes / rails, algorithm="ring")
    return simulate_collective(
        site, collective, SimulationOptions(engine="flow", balancing="ecmp")
    ).summary.completion_s


def _at_rate(link: Link, rate_bits_per_s: float) -> Link:
    return replace(link, speed_bits_per_s=rate_bits_per_s)


def measure_lab(name: str, sizes_bytes: Sequence[int]) -> tuple[Bandwidth, ...]:
    """Measure all-reduce between all servers with gloo, and simulate it on the same links."""
    lab = load(name)
    with tempfile.TemporaryDirectory(prefix="gpuyard-lab-") as folder:
        out = Path(folder) / "measured.json"
        words = [sys.executable, "-m", "gpuyard.lab.allreduce", str(out), *map(str, sizes_bytes)]
        start(lab, words, Path(folder), servers=lab.fabric.servers).wait(MEASURE_S)
        result = load_json_file(out, AllReduceResult)
    rows = []
    for point in result.points:
        took_s = predicted_s(lab, point.size_bytes)
        factor = point.bus_bytes_per_s * point.time_s
        rows.append(
            Bandwidth(
                size_bytes=point.size_bytes,
                measured_s=point.time_s,
                predicted_s=took_s,
                measured_bus_bytes_per_s=point.bus_bytes_per_s,
                predicted_bus_bytes_per_s=factor / took_s,
            )
        )
    return tuple(rows)

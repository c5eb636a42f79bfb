"""Every fabric design x verify x simulate x render x lab: `python bench/fabric_matrix.py [--lab] [NAME...]`.

Prints one line per design with its switches and the time of every step; a step that fails prints why. Simulated is
an all-reduce of 1 GB (for networks without GPUs: nothing), healthy and with a spine that fails after 0.2 ms. `--lab`
boots designs with routed leaves on this host, scaled to two servers per stripe; it needs root, FRR and network
namespaces.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from gpuyard.app.fabric import render_files
from gpuyard.app.lab import LabOptions, lab_down, lab_up
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.demand import AttachedHosts, Demand, Tenant
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for, for_purpose, with_switches
from gpuyard.fabric.physical.rack_plan import rack_plan
from gpuyard.fabric.saved import to_json
from gpuyard.fabric.verify.verify import verify
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.faults import Fault, NodeDown
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.fabric_network import site_of_fabric

T = TypeVar("T")
SIZE_BYTES = 1e9
LAB_CASES = ("h100-qfx5240", "two-planes", "rail-only", "unnumbered", "two-rails-per-leaf")


def cases(catalog: Catalog) -> dict[str, Demand]:
    """The designs, by name."""

    def of(machine: str, gpus: int, **changes: object) -> Demand:
        demand = demand_for(catalog.machine(machine), 1)
        count = gpus // demand.gpus_per_server
        return replace(demand, server_count=count, **changes)  # type: ignore[arg-type]

    h100 = of("hgx-h100", 256)
    storage = replace(for_purpose(h100, "storage"), nic_bits_per_s=200e9)
    tenants = (
        Tenant(name="blue", first_server=1, server_count=16),
        Tenant(name="red", first_server=17, server_count=16),
    )
    return {
        "h100-qfx5220": replace(h100, leaf="qfx5220-32cd"),
        "h100-qfx5240": replace(h100, leaf="qfx5240"),
        "global-balancing": replace(
            h100, leaf="qfx5240", spine_count=32, links_per_pair=1, balancing="global"
        ),
        "tenants": replace(h100, leaf="qfx5240", tenancy="server", tenants=tenants),
        "unnumbered": replace(h100, leaf="qfx5240", addressing="unnumbered"),
        "two-rails-per-leaf": replace(h100, leaf="qfx5240", rails_per_leaf=2),
        "two-planes": of("hgx-h100", 512, leaf="sn5600", planes=2),
        "rail-only": replace(h100, leaf="sn5600", shape="rail-only"),
        "b200-sn5600": of("hgx-b200", 2048, leaf="sn5600"),
        "b300-sonic": of("hgx-b300", 2048, leaf="sn5600", os="sonic"),
        "mi300x-1:1": of("mi300x-8x", 512, leaf="z9864f"),
        "mi300x-2:1": of("mi300x-8x", 512, leaf="z9864f", oversubscription_ratio=2.0),
        "arista": replace(h100, leaf="7060x6-64pe"),
        "gb200-nvl72": of("gb200-nvl72", 576),
        "infiniband-ndr": of("dgx-h100", 1024, leaf="qm9700"),
        "infiniband-xdr": of("hgx-b300", 1024, leaf="q3400"),
        "odd-37-servers": of("hgx-h100", 296),
        "one-server": of("hgx-h100", 8),
        "grow-to-1024": replace(h100, leaf="sn5600", grow_to_count=128),
        "three-tier-16k": of("hgx-h100", 16384, leaf="sn5600"),
        "storage-vast": replace(storage, attached=(AttachedHosts(name="vast", count=8),)),
        "frontend": replace(for_purpose(h100, "frontend"), nic_bits_per_s=100e9),
        "management": _management(h100, catalog),
    }


def _management(backend: Demand, catalog: Catalog) -> Demand:
    fabric = design(backend, catalog)
    assert isinstance(fabric, Fabric), fabric
    return with_switches(for_purpose(backend, "management"), fabric)


def timed(step: Callable[[], T]) -> tuple[T, str]:
    """The result of a step, and its time as text."""
    start_s = time.perf_counter()
    result = step()
    return result, f"{time.perf_counter() - start_s:.2f} s"


def line(name: str, demand: Demand, catalog: Catalog, *, lab: bool) -> list[str]:
    """The cells of one design."""
    fabric, design_time = timed(lambda: design(demand, catalog))
    if isinstance(fabric, Infeasible):
        return [name, f"infeasible: {fabric.what}"]
    whole, size = fabric, fabric.size
    switches = f"{size.leaves}+{size.spines}+{size.cores} {whole.demand.leaf}"
    verified, verify_time = timed(lambda: verify(whole, catalog))
    faults = len(verified.errors)
    verdict = f"{len(verified.checks)} checks, {faults} errors, {verify_time}"
    plan, plan_time = timed(lambda: rack_plan([whole], catalog))
    racks = plan.what if isinstance(plan, Infeasible) else f"{len(plan.racks)} racks, {plan_time}"
    with tempfile.TemporaryDirectory() as folder:
        files, render_time = timed(lambda: render_files(whole, Path(folder), catalog))
    return [
        name,
        switches,
        design_time,
        verdict,
        _simulated(whole, catalog),
        _without_a_spine(whole, catalog),
        f"{len(files)} files, {render_time}",
        racks,
        _booted(whole) if lab and name in LAB_CASES else "-",
    ]


def _simulated(fabric: Fabric, catalog: Catalog, *faults: Fault) -> str:
    if fabric.demand.purpose != "backend" or fabric.demand.server_count == 1:
        return "-"
    call = Collective(name="all-reduce", size_bytes=SIZE_BYTES)
    options = SimulationOptions(engine="flow", faults=faults)
    try:
        result, took = timed(
            lambda: simulate_collective(site_of_fabric(fabric, catalog), call, options)
        )
    except InputError as error:
        return str(error.problems[0].what)
    bus = result.summary.bus_bytes_per_s or 0.0
    return f"{bus / 1e9:.0f} GB/s ({result.summary.algorithm}), {took}"


def _without_a_spine(fabric: Fabric, catalog: Catalog) -> str:
    spines = [device.name for device in fabric.switches if device.role == "spine"]
    return _simulated(fabric, catalog, NodeDown(node=spines[0], at_s=2e-4)) if spines else "-"


def _booted(fabric: Fabric) -> str:
    lab = "matrix"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fabric.json"
        path.write_text(to_json(fabric), encoding="utf-8")
        try:
            started = lab_up(path, LabOptions(name=lab, servers_count=4))
        except InputError as error:
            return str(error.problems[0].what)
        finally:
            lab_down(lab)
    if isinstance(started, Infeasible):
        return started.what
    return f"boot {started.boot_s:.1f} s, routes {started.converge_s or 0:.1f} s"


def main() -> int:
    """Print the matrix; 1 if a design is infeasible or has errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", action="store_true", help="boot some designs (root, FRR)")
    parser.add_argument("names", nargs="*", help="only these designs")
    arguments = parser.parse_args()
    catalog = load_catalog()
    headings = ["design", "switches", "design", "verify", "all-reduce", "a spine fails", "render"]
    headings += ["racks", "lab"]
    print("| " + " | ".join(headings) + " |")
    print("|" + " --- |" * len(headings))
    failed = 0
    for name, demand in cases(catalog).items():
        if not arguments.names or name in arguments.names:
            cells = line(name, demand, catalog, lab=arguments.lab)
            failed += len(cells) < len(headings) or ", 0 errors," not in cells[3]
            print("| " + " | ".join(cells) + " |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

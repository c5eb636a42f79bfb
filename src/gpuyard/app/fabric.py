"""`gpuyard fabric`: design, read, verify, compare and render fabrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.document.decode import decode
from gpuyard.document.encode import load_json
from gpuyard.document.field_types import Keys
from gpuyard.document.read import parse_json, read_file, read_text
from gpuyard.document.tree import Mapping
from gpuyard.errors import Finding, Infeasible, InputError, choices_text
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.imports.built import AsBuilt, as_built
from gpuyard.fabric.imports.compare import compare
from gpuyard.fabric.imports.read import CablingReport, read_reports
from gpuyard.fabric.lossless.headroom import PortHeadroom, headroom
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.fabric.provider import ProviderFabric, provider_fabric
from gpuyard.fabric.render.exports.export_list import EXPORTS
from gpuyard.fabric.render.fabric_files import render
from gpuyard.fabric.render.site import Site, check_site
from gpuyard.fabric.saved import MAX_BYTES, from_json
from gpuyard.fabric.verify.failures import Progress, ignore_progress
from gpuyard.fabric.verify.finding import Verification
from gpuyard.fabric.verify.verify import verify, verify_topology
from gpuyard.home import write_atomic
from gpuyard.plan.option import Option, Plan
from gpuyard.topology.columns import from_json as topology_from_json
from gpuyard.topology.topology import Topology

REPORT_SUFFIXES = (".csv", ".json", ".txt", ".log", ".tsv")


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRequest:
    """What a fabric is designed for, and the catalog its machines and switches are in."""

    demand: Demand
    catalog: Catalog
    fabric: Fabric | None = None  # a saved fabric, from which the demand was read


def design_fabric(demand: Demand, catalog: Catalog) -> Fabric | ProviderFabric | Infeasible:
    """Design the fabric for a demand; for a cloud machine, return the provider-managed fabric."""
    if demand.machine is not None:
        managed = provider_fabric(catalog.machine(demand.machine))
        if managed is not None:
            return managed
    return design(demand, catalog)


def read_request(
    path: Path, layers: Sequence[Path] = (), option: int = 1
) -> FabricRequest | Infeasible:
    """Read what to design from a demand file, a workload file, or a saved plan or fabric."""
    if path.suffix == ".json":
        catalog = load_catalog(layers)
        text = read_text(path, MAX_BYTES)
        if "interfaces" in _keys(text, path):
            fabric = from_json(text, str(path))
            return FabricRequest(demand=fabric.demand, catalog=catalog, fabric=fabric)
        demand = _demand_of_json(text, path, catalog, option)
        return FabricRequest(demand=demand, catalog=catalog)
    document = read_file(path)
    if isinstance(document.root, Mapping) and document.root.get("task") is not None:
        workspace = open_workspace(path, layers)
        plan = plan_workload(workspace)
        if isinstance(plan, Infeasible):
            return plan
        demand = _demand_of_plan(plan, workspace.catalog, path, option)
        return FabricRequest(demand=demand, catalog=workspace.catalog)
    demand = decode(document.root, Demand, Keys.BARE)
    return FabricRequest(demand=demand, catalog=load_catalog(layers))


def _demand_of_json(text: str, path: Path, catalog: Catalog, option: int) -> Demand:
    if "options" in _keys(text, path):
        return _demand_of_plan(load_json(text, Plan, str(path)), catalog, path, option)
    return load_json(text, Demand, str(path))


def _demand_of_plan(plan: Plan, catalog: Catalog, path: Path, option: int) -> Demand:
    if not 1 <= option <= len(plan.options):
        raise InputError.one(
            str(path), f"there is no option {option}", f"use 1 to {len(plan.options)}"
        )
    return demand_of_option(plan.options[option - 1], catalog)


def demand_of_option(option: Option, catalog: Catalog, leaf: str | None = None) -> Demand:
    """The demand of an option's cluster on its backend fabric; `leaf` names the leaf switch."""
    cluster = option.cluster
    demand = demand_for(catalog.machine(cluster.machine), cluster.machine_count)
    return demand if leaf is None else replace(demand, leaf=leaf)


def rows_of_fabric(fabric: Fabric, catalog: Catalog) -> Catalog:
    """The rows that a fabric refers to, to be saved with it: some may be the user's own."""
    models = {switch.model for switch in fabric.switches if switch.model}
    machine = fabric.demand.machine
    return Catalog(
        machines=(catalog.machine(machine),) if machine else (),
        switches=tuple(catalog.switch(model) for model in sorted(models)),
        optics=catalog.optics,
    )


def _keys(text: str, path: Path) -> set[str]:
    data = parse_json(text, str(path))
    if not isinstance(data, dict):
        raise InputError.one(
            str(path), "is not a saved fabric", "use a file written by `gpuyard fabric design -o`"
        )
    return set(data)


def read_fabric(path: Path) -> Fabric:
    """Read a fabric written by `gpuyard fabric design -o`."""
    text = read_text(path, MAX_BYTES)
    if "interfaces" not in _keys(text, path):
        raise InputError.one(
            str(path), "is not a saved fabric", "use a file written by `gpuyard fabric design -o`"
        )
    return from_json(text, str(path))


def read_cabling(path: Path, speed_bits_per_s: float | None = None) -> Fabric | Topology:
    """Read a saved fabric, a saved topology, or cabling from a table or report."""
    if path.is_dir():
        return as_built(read_reports(_reports([path])), None, speed_bits_per_s).topology
    text = read_text(path, MAX_BYTES)
    if path.suffix == ".json" and text.lstrip().startswith("{"):
        keys = _keys(text, path)
        if "interfaces" in keys:
            return from_json(text, str(path))
        if "port_names" in keys:
            return topology_from_json(text, str(path))
    return as_built(
        read_reports([CablingReport(file=str(path), text=text)]), None, speed_bits_per_s
    ).topology


def verify_cabling(
    subject: Fabric | Topology,
    catalog: Catalog,
    on_progress: Progress = ignore_progress,
    built: Topology | None = None,
    name: str = "",
) -> Verification:
    """Run every check on a fabric, on a fabric as built, or on cabling alone."""
    if isinstance(subject, Topology):
        return verify_topology(subject, on_progress)
    return verify(subject, catalog, on_progress, built, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """As-built cabling and its differences from the design."""

    built: AsBuilt
    findings: tuple[Finding, ...]


def import_files(
    paths: Sequence[Path],
    against: Fabric | Topology | None = None,
    speed_bits_per_s: float | None = None,
) -> Imported:
    """Read the cabling in tables and reports; folders are read file by file."""
    design_topology = against.topology if isinstance(against, Fabric) else against
    built = as_built(read_reports(_reports(paths)), design_topology, speed_bits_per_s)
    empty = Topology(nodes=(), links=())
    findings = (
        compare(design_topology, built)
        if design_topology
        else compare(empty, replace(built, topology=empty))
    )
    return Imported(built=built, findings=findings)


def _reports(paths: Iterable[Path]) -> Iterator[CablingReport]:
    for path in paths:
        inside = (
            sorted(file for file in path.iterdir() if file.suffix in REPORT_SUFFIXES)
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise InputError.one(
                str(path),
                "contains no report",
                f"add files ending in {choices_text(REPORT_SUFFIXES)}",
            )
        for file in inside:
            yield CablingReport(file=str(file), text=read_text(file, MAX_BYTES))


def with_os(fabric: Fabric, os: str, catalog: Catalog) -> Fabric | Infeasible:
    """The fabric under another switch OS, designed again because port names differ."""
    if fabric.demand.os == os:
        return fabric
    return design(replace(fabric.demand, os=os), catalog)


def read_site(path: Path, fabric: Fabric) -> Site:
    """Read a site file: management network, users, time, logs and telemetry."""
    site = decode(read_file(path).root, Site, Keys.BARE)
    check_site(site, fabric)
    return site


def render_files(
    fabric: Fabric,
    folder: Path,
    catalog: Catalog,
    on_progress: Progress = ignore_progress,
    site: Site | None = None,
) -> tuple[str, ...]:
    """Write every file of a fabric under a folder; return their paths."""
    written: list[str] = []
    expected = len(fabric.devices)
    for file in render(fabric, catalog, site):
        write_atomic(folder / file.path, file.text, durable=False)
        written.append(file.path)
        on_progress(min(len(written), expected) - 1, expected)
    on_progress(expected - 1, expected)
    return tuple(written)


def export_files(
    fabric: Fabric, form: str, folder: Path, catalog: Catalog, site: Site | None = None
) -> tuple[str, ...]:
    """Write a fabric in the format of another tool; return the paths."""
    written = []
    for file in EXPORTS[form](fabric, site, catalog):
        write_atomic(folder / file.path, file.text, durable=False)
        written.append(file.path)
    return tuple(written)


def headroom_of_port(
    catalog: Catalog,
    name: str,
    speed_bits_per_s: float,
    cable_m: float,
    mtu_bytes: int,
    small_packet_ratio: float,
    *,
    lanes: int | None = None,
    shared_pool: bool = False,
) -> PortHeadroom:
    """PFC headroom of a port of a switch ASIC, or of a switch with its own published table."""
    switch = next((row for row in catalog.switches if name in (row.name, *row.aliases)), None)
    if switch is not None and switch.asic is None:
        raise InputError.one(
            "--asic", f"the ASIC of {switch.label} is unknown", "name the ASIC instead"
        )
    asic = catalog.asic(switch.asic or "" if switch else name)
    return headroom(
        asic,
        speed_bits_per_s,
        cable_m,
        mtu_bytes,
        small_packet_ratio,
        lanes=lanes,
        shared_pool=shared_pool,
        table=switch.headroom_lookup if switch else (),
    )

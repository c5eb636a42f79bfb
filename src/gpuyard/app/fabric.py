"""`gpuyard fabric`: demands from files and flags, fabrics read and written, verified, compared and rendered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.plan import plan_workload
from gpuyard.catalog import Catalog, SwitchOs, load_catalog
from gpuyard.document import Keys, Mapping, decode, load_json, read_file, read_text
from gpuyard.errors import Infeasible, InputError, one_of
from gpuyard.fabric import (
    Demand,
    Fabric,
    ProviderFabric,
    demand_for,
    design,
    from_json,
    provider_fabric,
)
from gpuyard.fabric.imports import AsBuilt, Report, as_built, compare, read_reports
from gpuyard.fabric.lossless import PortHeadroom, headroom
from gpuyard.fabric.render import render
from gpuyard.fabric.verify import Finding, Progress, Verification, verify, verify_topology
from gpuyard.fabric.verify.failures import quiet
from gpuyard.home import write_whole
from gpuyard.plan import Plan
from gpuyard.topology import Topology
from gpuyard.topology import from_json as topology_from_json
from gpuyard.workload import own_catalogs, read_workload

__all__ = [
    "Imported", "demand_of_file", "design_fabric", "headroom_of_port", "import_files", "read_cabling", "read_fabric",
    "render_files", "verify_cabling", "with_os",
]  # fmt: skip

MAX_BYTES = 1 << 30  # a saved fabric holds some 400 bytes a GPU
REPORT_SUFFIXES = (".csv", ".json", ".txt", ".log", ".tsv")


def design_fabric(demand: Demand, layers: Sequence[Path] = ()) -> Fabric | ProviderFabric | Infeasible:
    """The fabric for a demand; for a rented machine, what its provider gives instead."""
    catalog = load_catalog(layers)
    if demand.machine is not None:
        given = provider_fabric(catalog.machine(demand.machine))
        if given is not None:
            return given
    return design(demand, catalog)


def demand_of_file(path: Path, layers: Sequence[Path] = (), option: int = 1) -> Demand | Infeasible:
    """The demand that a file states: its own keys, a workload's best plan, or a saved plan or fabric."""
    if path.suffix == ".json":
        return _demand_of_json(read_text(path, MAX_BYTES), path, layers, option)
    document = read_file(path)
    if isinstance(document.root, Mapping) and document.root.get("task") is not None:
        catalog = load_catalog((*layers, *own_catalogs(path)))
        plan = plan_workload(read_workload(path, catalog), catalog)
        return plan if isinstance(plan, Infeasible) else _demand_of_plan(plan, catalog, path, option)
    return decode(document.root, Demand, Keys.BARE)


def _demand_of_json(text: str, path: Path, layers: Sequence[Path], option: int) -> Demand | Infeasible:
    """A saved fabric's demand, or that of an option of a saved plan."""
    keys = _keys(text, path)
    if "interfaces" in keys:
        return from_json(text).demand
    if "options" in keys:
        return _demand_of_plan(load_json(text, Plan, str(path)), load_catalog(layers), path, option)
    return load_json(text, Demand, str(path))


def _demand_of_plan(plan: Plan, catalog: Catalog, path: Path, option: int) -> Demand:
    """What one of the plan's clusters asks of a fabric."""
    if not 1 <= option <= len(plan.options):
        raise InputError.one(str(path), f"there is no option {option}", f"use 1 to {len(plan.options)}")
    cluster = plan.options[option - 1].cluster
    return demand_for(catalog.machine(cluster.machine), cluster.machine_count)


def _keys(text: str, path: Path) -> set[str]:
    """The keys of a JSON object."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError.one(f"{path}:{error.lineno}", f"not JSON: {error.msg}", "mend the syntax there") from None
    if not isinstance(data, dict):
        raise InputError.one(str(path), "is no saved fabric", "give what `gpuyard fabric design -o` wrote")
    return set(data)


def read_fabric(path: Path) -> Fabric:
    """The fabric that `gpuyard fabric design -o` wrote."""
    text = read_text(path, MAX_BYTES)
    if "interfaces" not in _keys(text, path):
        raise InputError.one(str(path), "is no saved fabric", "give what `gpuyard fabric design -o` wrote")
    return from_json(text)


def read_cabling(path: Path, speed_bits_per_s: float | None = None) -> Fabric | Topology:
    """A saved fabric, a saved topology, or cabling in a table or report."""
    if path.is_dir():
        return as_built(read_reports(_reports([path])), None, speed_bits_per_s).topology
    text = read_text(path, MAX_BYTES)
    if path.suffix == ".json" and text.lstrip().startswith("{"):
        keys = _keys(text, path)
        if "interfaces" in keys:
            return from_json(text)
        if "port_names" in keys:
            return topology_from_json(text, str(path))
    return as_built(read_reports([Report(file=str(path), text=text)]), None, speed_bits_per_s).topology


def verify_cabling(
    subject: Fabric | Topology,
    layers: Sequence[Path] = (),
    told: Progress = quiet,
    built: Topology | None = None,
    name: str = "",
) -> Verification:
    """Every check on a fabric, on a fabric as it was built, or on cabling alone."""
    if isinstance(subject, Topology):
        return verify_topology(subject, told)
    return verify(subject, load_catalog(layers), told, built, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Cabling as it was built, and what differs from the design."""

    built: AsBuilt
    findings: tuple[Finding, ...]


def import_files(
    paths: Sequence[Path], against: Fabric | Topology | None = None, speed_bits_per_s: float | None = None
) -> Imported:
    """The cabling in tables and reports; folders are read file by file."""
    design_topology = against.topology if isinstance(against, Fabric) else against
    built = as_built(read_reports(_reports(paths)), design_topology, speed_bits_per_s)
    empty = Topology(nodes=(), links=())
    findings = compare(design_topology, built) if design_topology else compare(empty, replace(built, topology=empty))
    return Imported(built=built, findings=findings)


def _reports(paths: Iterable[Path]) -> Iterator[Report]:
    """The texts of files, those in folders included."""
    for path in paths:
        inside = sorted(each for each in path.iterdir() if each.suffix in REPORT_SUFFIXES) if path.is_dir() else [path]
        if not inside:
            raise InputError.one(str(path), "no report in it", f"put files there that end in {one_of(REPORT_SUFFIXES)}")
        for each in inside:
            yield Report(file=str(each), text=read_text(each, MAX_BYTES))


def with_os(fabric: Fabric, os: SwitchOs, layers: Sequence[Path] = ()) -> Fabric | Infeasible:
    """The fabric under another switch OS: ports have other names, so it is designed again from its demand."""
    if fabric.demand.os == os:
        return fabric
    return design(replace(fabric.demand, os=os), load_catalog(layers))


def render_files(fabric: Fabric, folder: Path, layers: Sequence[Path] = (), told: Progress = quiet) -> tuple[str, ...]:
    """Writes every file of a fabric under a folder; gives their paths."""
    written: list[str] = []
    expected = len(fabric.devices)
    for file in render(fabric, load_catalog(layers)):
        write_whole(folder / file.path, file.text, durable=False)
        written.append(file.path)
        told(min(len(written), expected) - 1, expected)
    told(expected - 1, expected)
    return tuple(written)


def headroom_of_port(
    name: str,
    speed_bits_per_s: float,
    cable_m: float,
    mtu_bytes: int,
    small_packet_ratio: float,
    *,
    lanes: int | None = None,
    shared_pool: bool = False,
    layers: Sequence[Path] = (),
) -> PortHeadroom:
    """Headroom of a port of a chip, or of a switch of which a table of its own is published."""
    catalog = load_catalog(layers)
    switch = next((each for each in catalog.switches if name in (each.name, *each.aliases)), None)
    if switch is not None and switch.asic is None:
        raise InputError.one("--asic", f"no chip is known of {switch.label}", "name the chip instead")
    asic = catalog.asic(switch.asic or "" if switch else name)
    return headroom(
        asic, speed_bits_per_s, cable_m, mtu_bytes, small_packet_ratio, lanes=lanes, shared_pool=shared_pool,
        table=switch.headroom_lookup if switch else (),
    )  # fmt: skip

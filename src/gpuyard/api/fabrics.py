"""`gy.design_fabric`, `gy.verify` and `gy.simulate`: GPU backend fabrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Literal, cast, get_args

from gpuyard.api.keywords import check_choice, check_type, quantity, replace_keywords
from gpuyard.api.planning import OptionResult, PlanResult, option_of
from gpuyard.api.result import ApiResult
from gpuyard.api.workloads import PathLike, WorkloadLike, catalog_files
from gpuyard.app.fabric import demand_of_option, read_fabric, render_files, verify_cabling
from gpuyard.app.fabric import design_fabric as design_for_demand
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError, Problem
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.machine_demands import demand_for
from gpuyard.fabric.provider import ProviderFabric
from gpuyard.fabric.saved import to_json
from gpuyard.fabric.verify.finding import Verification
from gpuyard.report.fabric import checks_table, facts_table, findings_table
from gpuyard.report.fabric_svg import fabric_svg
from gpuyard.report.page import html_table
from gpuyard.simulate.comparison import StepRun
from gpuyard.units import BYTES, DURATION, show

NIC_BITS_PER_S = 400e9
EngineName = Literal["auto", "flow", "packet"]


class FabricResult(ApiResult):
    """A designed fabric: switches, links, addresses, routing, lossless QoS."""

    __slots__ = ("catalog", "fabric")

    def __init__(self, fabric: Fabric, catalog: Catalog) -> None:
        self.fabric = fabric
        self.catalog = catalog

    def headline(self) -> str:
        size = self.fabric.size
        cables = size.node_leaf_cables + size.leaf_spine_cables
        servers = self.fabric.demand.server_count
        return f"{servers} servers, {size.leaves} leaves, {size.spines} spines, {cables} cables"

    def sections(self) -> Sequence[str]:
        return [html_table(facts_table(self.fabric)), fabric_svg(self.fabric)]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "a": f"{link.a.node}:{link.a.port}",
                "b": f"{link.b.node}:{link.b.port}",
                **{
                    field.name: getattr(link, field.name)
                    for field in fields(link)
                    if field.name not in ("a", "b")
                },
            }
            for link in self.fabric.topology.links
        ]

    def value(self) -> object:
        return self.fabric

    def to_json(self) -> str:
        """Return the fabric as JSON text, as `gpuyard fabric design -o` writes it."""
        return to_json(self.fabric)

    def render(self, folder: str | Path) -> tuple[str, ...]:
        """Write switch, server and cabling files into a folder; return their paths."""
        return render_files(self.fabric, Path(folder), self.catalog)


class VerificationResult(ApiResult):
    """The checks of a fabric and their findings."""

    __slots__ = ("verification",)

    def __init__(self, verification: Verification) -> None:
        self.verification = verification

    @property
    def is_sound(self) -> bool:
        """Whether no check found an error."""
        return not self.verification.has_errors

    def raise_for_errors(self) -> VerificationResult:
        """Raise InputError with every error; return the result itself when there is none."""
        if not self.is_sound:
            raise InputError(
                Problem(where=item.where, what=item.what, fix=item.fix)
                for item in self.verification.errors
            )
        return self

    def headline(self) -> str:
        checks = self.verification.checks
        passed = sum(check.verdict == "passed" for check in checks)
        errors = len(self.verification.errors)
        warnings = len(self.verification.warnings)
        return f"{passed} of {len(checks)} checks passed, {errors} errors, {warnings} warnings"

    def sections(self) -> Sequence[str]:
        tables = (findings_table(self.verification), checks_table(self.verification))
        return [html_table(table) for table in tables]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(finding) for finding in self.verification.findings]

    def value(self) -> object:
        return self.verification


FabricLike = FabricResult | Fabric | PathLike


def design_fabric(
    gpus: int | OptionResult | PlanResult | WorkloadLike | None = None,
    *,
    servers: int | None = None,
    machine: str | None = None,
    switch: str | None = None,
    nic: str | float | None = None,
    catalog: PathLike | Sequence[PathLike] = (),
    **demand: object,
) -> FabricResult:
    """Design a lossless backend fabric.

    Args:
        gpus: number of GPUs, or an option, plan or workload whose machines it connects.
        servers: number of servers, in place of `gpus`.
        machine: machine of the catalog; sets NICs and GPUs per server.
        switch: leaf switch of the catalog.
        nic: NIC speed such as "400Gbps"; default: the machine's, else 400 Gbit/s.
        catalog: your own catalog files, over the built-in one.
        demand: further keys of a demand file: spine, os, planes, shape, cables, tenants, …
    """
    layers = catalog_files(catalog)
    if gpus is None or isinstance(gpus, int | float):
        rows = load_catalog(layers)
        base = _demand(gpus, servers, machine, rows)
    else:
        option = option_of(gpus)
        known = option.plan.workspace.catalog
        rows = load_catalog(layers, known) if layers else known
        base = demand_of_option(option.option, rows)
    for key, value in (("leaf", switch), ("nic", nic)):
        if value is not None:
            demand[key if isinstance(value, str) else "nic_bits_per_s"] = value
    fabric = design_for_demand(replace_keywords(base, demand, "design_fabric()"), rows)
    if isinstance(fabric, Infeasible):
        raise InputError.one(fabric.binding, f"infeasible: {fabric.what}", fabric.fix)
    if isinstance(fabric, ProviderFabric):
        what = f"the fabric of {fabric.machine} is provider-managed"
        raise InputError.one("machine", what, "design fabrics for on-premises machines")
    return FabricResult(fabric, rows)


def _demand(
    gpus: float | None, servers: int | None, machine: str | None, catalog: Catalog
) -> Demand:
    demand = Demand(server_count=1, nic_bits_per_s=NIC_BITS_PER_S)
    if machine is not None:
        demand = demand_for(catalog.machine(machine), 1)
    per_server = demand.gpus_per_server
    if servers is None:
        if gpus is None:
            raise InputError.one("design_fabric()", "no size", "give gpus=N or servers=N")
        if gpus <= 0:
            raise InputError.one("gpus", f"{gpus} is less than 1", f"use {per_server} or more")
        if gpus % per_server:
            full = math.ceil(gpus / per_server) * per_server
            what = f"{gpus} GPUs do not fill servers of {per_server}"
            raise InputError.one("gpus", what, f"use {full}")
        servers = int(gpus // per_server)
    return replace_keywords(demand, {"server_count": servers}, "design_fabric()")


def verify(fabric: FabricLike) -> VerificationResult:
    """Verify a fabric: connectivity, addressing, routing, lossless QoS, deadlock, failures."""
    result = fabric_of(fabric)
    return VerificationResult(verify_cabling(result.fabric, result.catalog))


def fabric_of(fabric: FabricLike) -> FabricResult:
    """A fabric given as a result, a value or a saved file."""
    if isinstance(fabric, FabricResult):
        return fabric
    fix = "give gy.design_fabric(...) or a saved fabric"
    check_type(fabric, (Fabric, str, Path), "fabric", "a fabric", fix)
    value = fabric if isinstance(fabric, Fabric) else read_fabric(Path(fabric))
    return FabricResult(value, load_catalog())


class SimulationView(ApiResult):
    """A simulated collective: time, bandwidth, hottest links."""

    __slots__ = ("result",)

    def __init__(self, result: object) -> None:
        from gpuyard.simulate.summary import SimulationResult

        self.result = cast(SimulationResult, result)

    @property
    def time_s(self) -> float:
        """Completion time."""
        return self.result.summary.completion_s

    @property
    def bus_bandwidth(self) -> float | None:
        """Bus bandwidth in bytes per second, as nccl-tests defines it."""
        return self.result.summary.bus_bytes_per_s

    def headline(self) -> str:
        summary = self.result.summary
        bus = f", {summary.bus_bytes_per_s / 1e9:.1f} GB/s bus" if summary.bus_bytes_per_s else ""
        return f"{summary.traffic} on {summary.network}: {show(self.time_s, DURATION)}{bus}"

    def sections(self) -> Sequence[str]:
        from gpuyard.report.simulation import links_table, simulation_table

        summary = self.result.summary
        return [html_table(simulation_table(summary)), html_table(links_table(summary))]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(load) for load in self.result.summary.hottest]

    def value(self) -> object:
        return self.result.summary


class StepView(ApiResult):
    """A simulated training step: terms of the closed form and of the simulation."""

    __slots__ = ("step",)

    def __init__(self, step: StepRun) -> None:
        self.step = step

    @property
    def step_time_s(self) -> float:
        """Simulated step time."""
        return self.step.simulated_step_s

    def headline(self) -> str:
        change = self.step.simulated_step_s / self.step.closed_step_s - 1
        seconds = show(self.step.simulated_step_s, DURATION)
        return f"step {seconds} on {self.step.network}, {change:+.1%} to the closed form"

    def sections(self) -> Sequence[str]:
        from gpuyard.report.simulation_step import phases_table, step_table

        return [html_table(step_table(self.step)), html_table(phases_table(self.step))]

    def rows(self) -> Sequence[Mapping[str, object]]:
        return [asdict(part) for part in self.step.parts]

    def value(self) -> object:
        return self.step


def simulate(
    subject: FabricLike | OptionResult | PlanResult,
    *,
    collective: str = "all-reduce",
    size: str | float = "1GB",
    algorithm: str = "auto",
    engine: EngineName = "auto",
    fabric: FabricLike | None = None,
) -> SimulationView | StepView:
    """Simulate a collective on a fabric, or one training step of a planned option.

    Args:
        subject: a fabric (a result, a value or a saved file), or an option of a training plan;
            of a plan its best option.
        collective: "all-reduce", "all-gather", "reduce-scatter", "all-to-all", …
        size: message size as nccl-tests counts it, such as "1GB".
        algorithm: "ring", "tree", "hierarchical", …; "auto" takes the fastest.
        engine: "flow" (max-min fair flows), "packet" (PFC, ECN, DCQCN), or "auto".
        fabric: of an option: the fabric to use; default: one designed for it.
    """
    check_choice(engine, get_args(EngineName), "engine")
    if isinstance(subject, OptionResult | PlanResult):
        from gpuyard.app.step import check_trains, simulate_training_step

        option = option_of(subject)
        check_trains(option.plan.workspace)
        used = fabric_of(fabric).fabric if fabric is not None else None
        return StepView(simulate_training_step(option.plan.workspace, option.option, used))
    from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
    from gpuyard.simulate.run_traffic import SimulationOptions
    from gpuyard.simulate.sites.fabric_network import site_of_fabric

    target = fabric_of(subject)
    size_bytes = quantity(size, BYTES, "size")
    call = Collective(name=collective, size_bytes=size_bytes, algorithm=algorithm)
    site = site_of_fabric(target.fabric, target.catalog)
    return SimulationView(simulate_collective(site, call, SimulationOptions(engine=engine)))

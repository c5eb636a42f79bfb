"""Plan LLM serving: screen all candidates in closed form, simulate a shortlist, price it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.errors import Infeasible
from gpuyard.perf.inference.shape import DecoderShape, decoder_of
from gpuyard.plan.eligible import exclusion_of
from gpuyard.plan.engine_commands import read_servers, servers_for
from gpuyard.plan.inference.candidates import ChipGrid
from gpuyard.plan.inference.disaggregated import PrefillDecodePair, pairs
from gpuyard.plan.inference.frontier import frontier
from gpuyard.plan.inference.grids import chip_grid, placed_on
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import ServingLoad, Targets, targets_of
from gpuyard.plan.inference.pinned import check_pinned, exact_machines, size_exactly
from gpuyard.plan.inference.refine import (
    GROWTH,
    CachedServingModel,
    SimulatedSizing,
    SimulationCache,
    confident_targets,
    size_pair_under_load,
    size_under_load,
)
from gpuyard.plan.inference.rejection_reasons import (
    missed_under_load,
    too_big,
    too_slow,
)
from gpuyard.plan.inference.replica import Replica, ServingModel
from gpuyard.plan.inference.serverless import instance_for
from gpuyard.plan.inference.service_cost import (
    ServiceCost,
    cheapest_equivalents,
    preemptible_only,
    service_cost,
)
from gpuyard.plan.inference.service_option import ServiceCandidate, service_option
from gpuyard.plan.inference.serving_support import compute_chip, unsupported
from gpuyard.plan.inference.sizing import ReplicaSizing, replica_sizings
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.limits import LimitCheck, LimitViolation, check_limits, max_machines
from gpuyard.plan.option import Option, Plan, RejectedFamily
from gpuyard.plan.ranking import SearchOutcome, conclude_plan
from gpuyard.workload.workload import Workload

SHORTLIST = 4  # replicas per machine type that are simulated
PAIRS = 2  # prefill/decode pairs per machine type that are simulated
EQUAL_RATIO = 0.1  # latencies closer than this are equal: then the preferred engine decides
MAX_SERVICE_CHIPS = 4096  # if the file sets no limit
WIDE_RATIO = 1.0  # a tenth of runs take over twice the predicted TTFT

NOTHING_LEFT = Infeasible(
    binding="where",
    what="no machine type is left to serve on",
    fix="allow more machines, or another precision",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Search:
    """Inputs of the search, and the reasons against candidates collected on the way."""

    workload: Workload
    model: Model
    load: ServingLoad
    targets: Targets
    catalog: Catalog
    simulated: CachedServingModel
    misses: list[LimitViolation] = field(default_factory=list)
    excluded: list[RejectedFamily] = field(default_factory=list)

    @property
    def shape(self) -> DecoderShape:
        assert self.model.transformer is not None, "checked by the caller"
        return decoder_of(self.model)


def plan_inference(
    workload: Workload,
    catalog: Catalog,
    load: ServingLoad,
    model: ServingModel,
    cache: SimulationCache | None = None,
) -> Plan | Infeasible:
    """Return the services that meet every target at the load, cheapest first, or Infeasible.

    `cache` holds simulations of the same model in other plans."""
    check_pinned(workload)
    served = workload.model
    assert served is not None, "the workload checks require a model"
    search = _Search(
        workload=workload,
        model=served,
        load=load,
        targets=targets_of(workload.requirements),
        catalog=catalog,
        simulated=CachedServingModel(model, load, cache),
    )
    machines = cheapest_equivalents(tuple(_machines(search)), workload, catalog)
    grids = _grids(search, machines)
    options: list[Option] = [
        service_option(candidate, catalog)
        for machine in machines
        for candidate in _candidates(search, machine, grids[_grid_key(machine)])
    ]
    chip_grids = list(grids.values())
    engines = {server.label for grid in chip_grids for server in servers_for(grid.chip)}
    outcome = SearchOutcome(
        options=options,
        violations=search.misses,
        searched_count=sum(grid.tpot_s.size for grid in chip_grids),
        otherwise=NOTHING_LEFT,
        notes=load.notes,
        profile=", ".join(sorted(engines)),
        excluded=search.excluded,
        frontier=frontier(chip_grids),
    )
    return conclude_plan(workload, catalog, outcome)


def _machines(search: _Search) -> Iterator[Machine]:
    """Machine types that can be candidates; reasons against others go to `excluded`."""
    for machine in search.catalog.machines:
        if not search.workload.where.includes(machine.provider):
            continue
        exclusion = exclusion_of(search.workload, machine, search.catalog) or unsupported(
            machine, search.catalog, search.workload.where
        )
        if exclusion is not None:
            search.excluded.append(exclusion.rejected(machine.series))
            continue
        preemptible = preemptible_only(search.workload, machine, search.catalog)
        if preemptible is not None:
            search.misses.append(preemptible)
            continue
        yield machine


def _grid_key(machine: Machine) -> str:
    """Machines with the same accelerator share a grid; CPU machines differ in cores."""
    return machine.chip or machine.name


def _grids(search: _Search, machines: Iterable[Machine]) -> dict[str, ChipGrid]:
    by_chip: dict[str, list[Machine]] = {}
    for machine in machines:
        by_chip.setdefault(_grid_key(machine), []).append(machine)
    grids = {}
    for key, group in by_chip.items():
        chip = compute_chip(group[0], search.catalog)
        assert chip is not None, "excluded before"
        grids[key] = chip_grid(
            search.workload, search.model, search.load, search.catalog, chip, group
        )
    return grids


def _candidates(search: _Search, machine: Machine, grid: ChipGrid) -> Iterator[ServiceCandidate]:
    """The cheapest service on a machine type, and a disaggregated one where that is cheaper or
    meets targets that the other does not; reasons against go to `misses`."""
    most = _max_machines(search, machine)
    grid = placed_on(grid, machine)
    big = too_big(grid, machine)
    if big is not None:
        search.misses.append(big)
        return
    aggregated = _aggregated(search, machine, grid, most)
    if aggregated is not None:
        yield aggregated
    if search.workload.pinned is not None or search.workload.where.cluster:
        return
    disaggregated = _disaggregated(search, machine, grid, most, aggregated)
    if disaggregated is not None:
        yield disaggregated


def _aggregated(
    search: _Search, machine: Machine, grid: ChipGrid, most: int
) -> ServiceCandidate | None:
    """The cheapest service whose replicas run both prefill and decode."""
    slow = too_slow(grid, machine, search.load, search.targets, search.shape, most)
    if slow is not None:
        search.misses.append(slow)
        return None
    sure = [_confident(search, replica) for replica in grid.replicas]
    best = _cheapest(search, machine, grid, most, sure)
    if best is not None and not best.risks:
        return best
    nominal = _cheapest(search, machine, grid, most, [search.targets] * len(grid))
    return min((item for item in (best, nominal) if item), key=lambda item: item.rank, default=None)


def _confident(search: _Search, replica: Replica, disaggregated: bool = False) -> Targets:
    confidence = search.workload.requirements.confidence_ratio
    return confident_targets(search.targets, replica, confidence, disaggregated)


def _cheapest(
    search: _Search, machine: Machine, grid: ChipGrid, most: int, targets: Sequence[Targets]
) -> ServiceCandidate | None:
    """The cheapest simulated service that meets the targets given for each replica."""
    best: ServiceCandidate | None = None
    ordered = _ordered(replica_sizings(grid, machine, search.load, targets))
    for sizing in ordered[:SHORTLIST]:
        if best and not best.risks and sizing.machine_count >= best.simulated.machine_count:
            break  # the closed form is optimistic and already needs as many machines
        candidate = _simulated(search, sizing, most)
        if isinstance(candidate, LimitViolation):
            search.misses.append(candidate)
            continue
        if best is None or candidate.rank < best.rank:
            best = candidate
    return best


def _disaggregated(
    search: _Search,
    machine: Machine,
    grid: ChipGrid,
    most: int,
    aggregated: ServiceCandidate | None,
) -> ServiceCandidate | None:
    fewest = most
    if aggregated is not None:
        fewest = min(most, aggregated.simulated.machine_count - 1)
    if fewest < 1:
        return None
    best: ServiceCandidate | None = None
    for pair in pairs(grid, machine, search.load, search.targets)[:PAIRS]:
        if pair.machine_count > fewest:
            break
        targets = _confident(search, pair.decode, disaggregated=True)
        simulated = size_pair_under_load(pair, search.simulated, targets, fewest)
        if simulated is None and aggregated is None:
            simulated = size_pair_under_load(pair, search.simulated, search.targets, fewest)
        if simulated is None:
            continue
        priced = _priced(search, _decode_sizing(pair), simulated, most)
        if isinstance(priced, ServiceCandidate) and (best is None or priced.rank < best.rank):
            best = priced
            fewest = simulated.machine_count - 1
    if best is None:
        return None
    if aggregated is None:
        return best
    if best.rank >= aggregated.rank:
        return None
    return replace(best, instead_of=f"{aggregated.machine_count} × {machine.name}")


def _decode_sizing(pair: PrefillDecodePair) -> ReplicaSizing:
    return ReplicaSizing(
        machine=pair.machine,
        replica=pair.decode,
        sequences=pair.sequences,
        tpot_s=pair.tpot_s,
        ttft_s=pair.ttft_s,
        e2e_s=pair.e2e_s,
        capacity=1.0 / pair.e2e_s,
        machine_count=pair.machine_count,
        loaded_s=pair.e2e_s,
    )


def _max_machines(search: _Search, machine: Machine) -> int:
    most = max_machines(search.workload.where, machine)
    return min(most, max(1, int(MAX_SERVICE_CHIPS // (machine.chip_count or 1))))


def _ordered(sizings: Iterable[ReplicaSizing]) -> list[ReplicaSizing]:
    """By machines, machines per replica, no pipeline stages, published runs, latency, engine."""
    preference = {server.models: rank for rank, server in enumerate(read_servers())}
    uncertain: dict[str, bool] = {}  # by engine: few or unlike published runs on this chip

    def order(item: ReplicaSizing) -> tuple[int, int, bool, bool, int, int, float]:
        engine = item.replica.engine.name
        if engine not in uncertain:
            uncertain[engine] = item.replica.interval("ttft").ratio > WIDE_RATIO
        return (
            item.machine_count,
            machines_of(item.replica.layout, item.machine),
            item.replica.layout.pp > 1,
            uncertain[engine],
            round(math.log(item.loaded_s) / EQUAL_RATIO),
            preference[item.replica.engine.name],
            item.loaded_s,
        )

    return sorted(sizings, key=order)


def _simulated(
    search: _Search, sizing: ReplicaSizing, most: int
) -> ServiceCandidate | LimitViolation:
    machine = sizing.machine
    exact = exact_machines(search.workload, sizing)
    if exact is not None:
        simulated = size_exactly(search.workload, sizing, search.simulated, sizing.targets, exact)
    elif sizing.machine_count > most:
        return _too_many(search, machine, sizing.machine_count, most)
    elif (dear := _over_budget(search, sizing)) is not None:
        return dear
    else:
        simulated = size_under_load(sizing, search.simulated, most)
    if isinstance(simulated, Infeasible):
        return LimitViolation(
            family=machine.series,
            binding=simulated.binding,
            ratio=math.inf,
            what=simulated.what,
            fix=simulated.fix,
            fits=True,
        )
    if simulated.missed:
        return missed_under_load(machine, sizing.replica, simulated)
    return _priced(search, sizing, simulated, most)


def _over_budget(search: _Search, sizing: ReplicaSizing) -> LimitViolation | None:
    """The violation of the hourly budget by fewer machines than in closed form."""
    if search.workload.requirements.hourly_budget_usd_per_hour is None:
        return None
    machine, span = sizing.machine, machines_of(sizing.replica.layout, sizing.machine)
    count = max(span, math.floor(sizing.machine_count / GROWTH))  # the simulation may need fewer
    offer = service_cost(search.workload, machine, count, span, 0.0, search.catalog)
    if offer is None or not offer.bills or instance_for(machine, search.workload.where):
        return None
    return _check(search, machine, offer).miss


def _check(search: _Search, machine: Machine, offer: ServiceCost) -> LimitCheck:
    return check_limits(
        machine,
        offer.machine_count,
        None,
        Resilience(),
        search.workload,
        search.catalog,
        offer.bills,
    )


def _priced(
    search: _Search, sizing: ReplicaSizing, simulated: SimulatedSizing, most: int
) -> ServiceCandidate | LimitViolation:
    """Add redundancy and bills, and check them against the file's limits."""
    machine = sizing.machine
    span = machines_of(sizing.replica.layout, machine)
    single_chip = sizing.replica.layout.chips == 1 and simulated.prefill is None
    if simulated.prefill is not None:
        span = max(span, machines_of(simulated.prefill.replica.layout, machine))
    chip = compute_chip(machine, search.catalog)
    assert chip is not None, "excluded before"
    rate = search.load.requests_per_s or simulated.latencies.requests_per_s
    offer = service_cost(
        search.workload,
        machine,
        simulated.machine_count,
        span,
        rate,
        search.catalog,
        serverless_replicas=simulated.replicas if single_chip else 0,
    )
    if offer is None or offer.machine_count > most:
        needed = offer.machine_count if offer else simulated.machine_count + 1
        return _too_many(search, machine, needed, most)
    check = _check(search, machine, offer)
    if check.miss is not None:
        return check.miss
    return ServiceCandidate(
        workload=search.workload,
        model=search.model,
        load=search.load,
        sizing=sizing,
        simulated=simulated,
        chip=chip,
        machine_count=offer.machine_count,
        bills=check.bills,
        max_machines=most,
    )


def _too_many(search: _Search, machine: Machine, needed: int, most: int) -> LimitViolation:
    binding = "where.inventory" if search.workload.where.inventory else "where.max_chips"
    return LimitViolation(
        family=machine.series,
        binding=binding,
        ratio=needed / most if most else math.inf,
        what=f"the load needs {needed:,} × {machine.name}; {most:,} are allowed",
        fix=f"allow {needed * machine.chip_count:,.10g} chips of this type, or reduce the load",
        fits=True,
    )

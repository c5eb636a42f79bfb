"""Plans for serving a language model: every machine, layout, number format and batch, timed, simulated and priced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpuyard.catalog import Catalog, Chip, Machine, Model
from gpuyard.errors import Infeasible
from gpuyard.perf.inference import Engine, Precision, ReplicaLayout, Shape, shape_of
from gpuyard.plan.conclude import concluded
from gpuyard.plan.eligible import chip_of, ruled_out
from gpuyard.plan.engines import read_servers, servers_for
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.inference.bids import bid, cheapest_alike
from gpuyard.plan.inference.describe import Deployed, option
from gpuyard.plan.inference.formats import formats, four_bits
from gpuyard.plan.inference.frontier import frontier
from gpuyard.plan.inference.grid import ChipGrid, grid_of, replicas_of
from gpuyard.plan.inference.layouts import layouts, machines_of
from gpuyard.plan.inference.load import Load, Targets, targets_of
from gpuyard.plan.inference.pools import Pair, pairs
from gpuyard.plan.inference.processors import calibration, engine_named, processor_of, serving_on
from gpuyard.plan.inference.refine import Proven, Simulated, doubts, refined, refined_pair
from gpuyard.plan.inference.replica import ServingModel
from gpuyard.plan.inference.serverless import instance_for
from gpuyard.plan.inference.sizing import Sized, sized
from gpuyard.plan.inference.why_not import first_reason, missed_under_load, too_big, too_slow
from gpuyard.plan.limits import Miss, judged, most_machines
from gpuyard.plan.option import Option, Plan, Rejected
from gpuyard.workload import Where, Workload

__all__ = ["plan_inference"]

SHORTLIST = 4  # replicas of a machine type that are simulated
PAIRS = 2  # pairs of pools of a machine type that are simulated
ALIKE = 0.1  # latencies closer than this are the same, as predictions go: then the server to prefer decides
NARROW = ("int4-weights", "nvfp4")  # mxfp4 is how some models are published
LARGEST_CHIPS = 4096  # of one service, where the file sets no limit


NOTHING = Infeasible(
    binding="where", what="no machine type is left to serve on", fix="allow more machines, or another precision"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Search:
    """What is asked, and what was found on the way."""

    workload: Workload
    model: Model
    load: Load
    targets: Targets
    catalog: Catalog
    simulated: Simulated
    misses: list[Miss] = field(default_factory=list)
    out: list[Rejected] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        """The model as the costs see it."""
        assert self.model.transformer is not None, "callers ask for a transformer"
        return shape_of(self.model.transformer)


def plan_inference(workload: Workload, catalog: Catalog, load: Load, model: ServingModel) -> Plan | Infeasible:
    """The services that keep every target at the load, the cheapest first; Infeasible with what to relax."""
    served = workload.model
    assert served is not None, "the checks of an inference workload ask for it"
    search = _Search(
        workload=workload,
        model=served,
        load=load,
        targets=targets_of(workload.requirements),
        catalog=catalog,
        simulated=Simulated(model, load),
    )
    machines = cheapest_alike(tuple(_machines(search)), workload, catalog)
    grids = _grids(search, machines)
    options: list[Option] = []
    for machine in machines:
        options += [option(found, catalog) for found in _ways(search, machine, grids[_key(machine)])]
    known = list(grids.values())
    return concluded(
        workload,
        catalog,
        options,
        search.misses,
        searched_count=sum(grid.tpot_s.size for grid in known),
        nothing=first_reason(search.misses, search.out, NOTHING),
        notes=load.notes,
        profile=", ".join(sorted({server.label for grid in known for server in servers_for(grid.chip)})),
        excluded=search.out,
        frontier=frontier(known),
    )


def _machines(search: _Search) -> Iterator[Machine]:
    """The machine types that the file and the model leave in; the others go to `out`."""
    for machine in search.catalog.machines:
        if machine.provider != search.workload.where.provider:
            continue
        reason = ruled_out(search.workload, machine, search.catalog) or _unknown(
            machine, search.catalog, search.workload.where
        )
        if reason is None:
            yield machine
        else:
            binding, _, what = reason.partition(": ")
            search.out.append(Rejected(family=machine.series, binding=binding, what=what, fix=f"relax {binding}"))


def _unknown(machine: Machine, catalog: Catalog, where: Where) -> str | None:
    """Why nothing can be said of a machine."""
    chip = _chip(machine, catalog)
    if chip is None:
        return "machines: no accelerator, and its processor has no matrix units"
    if machine.chip is not None and machine.chip_count < 1:
        return "machines: a share of a chip"
    if serving_on(machine, chip) is None or not servers_for(chip):
        return f"chips: nothing is known of serving on {chip.label}"
    if where.platform == "cloud-run" and instance_for(machine, where) is None:
        return "where.platform: an instance of Cloud Run has one L4 or one RTX PRO 6000"
    return None


def _chip(machine: Machine, catalog: Catalog) -> Chip | None:
    """What computes: the accelerator, or the processor where there is none."""
    return chip_of(machine, catalog) or processor_of(machine, catalog)


def _key(machine: Machine) -> str:
    """Machines of one key have the same grid: those with the same accelerator; processors differ in cores."""
    return machine.chip or machine.name


def _grids(search: _Search, machines: Iterable[Machine]) -> dict[str, ChipGrid]:
    """The closed form of each chip, over every replica that one of the machines could hold."""
    alike: dict[str, list[Machine]] = {}
    for machine in machines:
        alike.setdefault(_key(machine), []).append(machine)
    found = {}
    for key, own in alike.items():
        chip = _chip(own[0], search.catalog)
        assert chip is not None, "ruled out before"
        found[key] = _grid(search, chip, own)
    return found


def _grid(search: _Search, chip: Chip, machines: Sequence[Machine]) -> ChipGrid:
    """One chip's grid; four bits are tried where nothing wider fits."""
    serving, shape = serving_on(machines[0], chip), search.model.transformer
    assert serving is not None, "ruled out before"
    assert shape is not None, "callers ask for a transformer"
    placed = [layout for layout in layouts(shape) if any(machines_of(layout, machine) for machine in machines)]
    asked = search.workload.requirements.precision

    def ways(forms: Iterable[Precision]) -> list[tuple[Engine, Precision, ReplicaLayout]]:
        """Every server, format and layout that go together."""
        return [
            (engine_named(server.models), form, layout)
            for form in forms
            for server in servers_for(chip)
            if server.serves(search.model, form.weights)
            for layout in placed
        ]

    wide = ways(formats(search.model, chip, serving, asked))
    kept, big = replicas_of(serving, search.shape, search.load, wide, calibration())
    homes = {machine.name for machine in machines for item in kept if machines_of(item.layout, machine)}
    if asked is None and any(machine.name not in homes for machine in machines):
        narrow = ways(four_bits(search.model, chip, serving))
        more, still = replicas_of(serving, search.shape, search.load, narrow, calibration())
        kept, big = kept + more, big + still
    return grid_of(chip, kept, big, search.load)


def _ways(search: _Search, machine: Machine, grid: ChipGrid) -> Iterator[Deployed]:
    """The cheapest service on a machine type, and one with prompts read apart where that is cheaper or alone keeps
    the targets; what stands in the way goes to `misses`."""
    most, own = _most(search, machine), _placed(grid, machine)
    big = too_big(own, machine)
    if big is not None:
        search.misses.append(big)
        return
    best = _together(search, machine, own, most)
    if best is not None:
        yield best
    apart = _apart(search, machine, own, most, best)
    if apart is not None:
        yield apart


def _together(search: _Search, machine: Machine, own: ChipGrid, most: int) -> Deployed | None:
    """The cheapest service whose replicas read and write."""
    against = too_slow(own, machine, search.load, search.targets, search.shape, most)
    if against is not None:
        search.misses.append(against)
        return None
    best: Deployed | None = None
    for candidate in _shortlist(search, list(sized(own, machine, search.load, search.targets)))[:SHORTLIST]:
        if best is not None and not best.doubts and candidate.machine_count >= best.proven.machine_count:
            break  # its closed form, an optimist, already asks for as many
        found = _deployed(search, candidate, most)
        if isinstance(found, Miss):
            search.misses.append(found)
            continue
        if best is None or found.rank < best.rank:
            best = found
    return best


def _apart(search: _Search, machine: Machine, own: ChipGrid, most: int, best: Deployed | None) -> Deployed | None:
    """The service of two pools that takes fewer machines than the best without, or keeps targets where none does."""
    fewest = most if best is None else min(most, best.proven.machine_count - 1)
    if fewest < 1:
        return None
    found: Deployed | None = None
    for pair in pairs(own, machine, search.load, search.targets)[:PAIRS]:
        if pair.machine_count > fewest:
            break
        proven = refined_pair(pair, search.simulated, search.targets, fewest)
        if proven is None:
            continue
        billed = _billed(search, _written(pair), proven, most)
        if isinstance(billed, Deployed) and (found is None or billed.rank[1:] < found.rank[1:]):
            found = billed
            fewest = proven.machine_count - 1
    if found is None or (best is not None and found.rank[1:] >= best.rank[1:]):
        return None
    return replace(found, instead_of=f"{best.machine_count} × {machine.name}" if best else "")


def _written(pair: Pair) -> Sized:
    """The pool that writes, as the one of the service."""
    return Sized(
        machine=pair.machine,
        replica=pair.writer,
        sequences=pair.sequences,
        tpot_s=pair.tpot_s,
        ttft_s=pair.ttft_s,
        e2e_s=pair.e2e_s,
        capacity=1.0 / pair.e2e_s,
        machine_count=pair.machine_count,
    )


def _placed(grid: ChipGrid, machine: Machine) -> ChipGrid:
    """The candidates that the machine can hold; four bits only where it holds nothing wider."""
    here = [index for index, replica in enumerate(grid.replicas) if machines_of(replica.layout, machine)]
    wide = [index for index in here if grid.replicas[index].precision.weights not in NARROW]
    return grid.only(wide or here)


def _most(search: _Search, machine: Machine) -> int:
    """The most machines of a type that may serve."""
    most = most_machines(search.workload.where, machine)
    return min(most, max(1, int(LARGEST_CHIPS // (machine.chip_count or 1))))


def _shortlist(search: _Search, found: list[Sized]) -> list[Sized]:
    """By machines, then those that surely keep the targets, by the time of an answer, then by the server to prefer."""
    order = {server.models: rank for rank, server in enumerate(read_servers())}
    return sorted(
        found,
        key=lambda item: (
            item.machine_count,
            bool(doubts(item.ttft_s, item.tpot_s, item.e2e_s, item.replica, search.targets)),
            round(math.log(item.e2e_s) / ALIKE),
            order[item.replica.engine.name],
            item.e2e_s,
        ),
    )


def _deployed(search: _Search, candidate: Sized, most: int) -> Deployed | Miss:
    """The candidate simulated, with spares and bills; or the limit that it misses."""
    machine = candidate.machine
    if candidate.machine_count > most:
        return _too_many(search, machine, candidate.machine_count, most)
    proven = refined(candidate, search.simulated, search.targets, most)
    if isinstance(proven, Infeasible):
        return Miss(
            family=machine.series, binding=proven.binding, ratio=math.inf, what=proven.what, fix=proven.fix, fits=True
        )  # fmt: skip
    if proven.missed:
        return missed_under_load(machine, candidate.replica, proven)
    return _billed(search, candidate, proven, most)


def _billed(search: _Search, candidate: Sized, proven: Proven, most: int) -> Deployed | Miss:
    """Spares and bills of a proven number of machines, against the file's limits."""
    machine, span = candidate.machine, machines_of(candidate.replica.layout, candidate.machine)
    alone = candidate.replica.layout.chips == 1 and proven.prompts is None
    if proven.prompts is not None:
        span = max(span, machines_of(proven.prompts.replica.layout, machine))
    chip = _chip(machine, search.catalog)
    assert chip is not None, "ruled out before"
    rate = search.load.requests_per_s or proven.latencies.requests_per_s
    offer = bid(
        search.workload, machine, proven.machine_count, span, rate, search.catalog,
        serverless_replicas=proven.replicas if alone else 0,
    )  # fmt: skip
    if offer is None or offer.machine_count > most:
        wanted = offer.machine_count if offer else proven.machine_count + 1
        return _too_many(search, machine, wanted, most)
    if not offer.bills and offer.passing:
        return _passing(machine, offer.passing)
    verdict = judged(
        machine, offer.machine_count, None, Resilience(), search.workload, search.catalog, offer.bills
    )  # fmt: skip
    if verdict.miss is not None:
        return verdict.miss
    return Deployed(
        workload=search.workload,
        model=search.model,
        load=search.load,
        sized=candidate,
        proven=proven,
        chip=chip,
        machine_count=offer.machine_count,
        bills=verdict.bills,
        most_machines=most,
    )


def _passing(machine: Machine, ways: Sequence[str]) -> Miss:
    """A machine that can only be had by ways that end under a service."""
    return Miss(
        family=machine.series,
        binding="where.consumption",
        ratio=math.inf,
        what=f"{machine.name} can be had by {' and '.join(ways)} alone, which end while the service runs",
        fix=f"name it: consumption: [{', '.join(ways)}]",
    )


def _too_many(search: _Search, machine: Machine, needed: int, most: int) -> Miss:
    """More machines than there may be."""
    binding = "where.inventory" if search.workload.where.inventory else "where.max_chips"
    return Miss(
        family=machine.series,
        binding=binding,
        ratio=needed / most if most else math.inf,
        what=f"the load needs {needed:,} × {machine.name}; {most:,} are allowed",
        fix=f"allow {needed * machine.chip_count:,.10g} chips of this kind, or lower the load",
        fits=True,
    )

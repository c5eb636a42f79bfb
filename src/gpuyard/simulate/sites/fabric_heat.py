"""Link load of a fabric under the heaviest collective of a training step."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyard.catalog.load import Catalog
from gpuyard.errors import InputError
from gpuyard.fabric.fabric import Fabric
from gpuyard.simulate.collectives.simulate_collective import Collective, simulate_collective
from gpuyard.simulate.comparison import PhaseTimes, StepRun
from gpuyard.simulate.link_heat import Heat, heat_of
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.fabric_network import site_of_fabric

MOST_HOSTS = 9000  # above this a drawing is too large to be useful
IN_LEVELS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
)  # inside the servers, then over the rails
DEFAULT = Collective(name="all-reduce", size_bytes=1e9)


def fabric_heat(fabric: Fabric, step: StepRun | None, catalog: Catalog) -> Heat | None:
    """Simulate the collective; None for a fabric too large to draw, or one without levels."""
    site = site_of_fabric(fabric, catalog)
    if not 2 <= site.network.host_count <= MOST_HOSTS:
        return None
    heaviest = _heaviest(step.phases if step is not None else ())
    collective = Collective(
        name=heaviest.collective if heaviest else DEFAULT.name,
        size_bytes=heaviest.size_bytes if heaviest else DEFAULT.size_bytes,
        algorithm="hierarchical"
        if min(fabric.demand.gpus_per_server, fabric.demand.server_count) > 1
        else "ring",
    )
    try:
        return heat_of(simulate_collective(site, collective, SimulationOptions(engine="flow")))
    except InputError:
        return None


def _heaviest(phases: Sequence[PhaseTimes]) -> PhaseTimes | None:
    far = [phase for phase in phases if phase.axis != "tp" and phase.collective in IN_LEVELS]
    return max(far, key=lambda phase: phase.size_bytes, default=None)

"""The heaviest collective of a training step over the whole of a designed fabric: which links it fills, and when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuyard.app.collectives import Collective, simulate_collective
from gpuyard.app.simulate import Play
from gpuyard.app.sites import site_of_fabric
from gpuyard.catalog import load_catalog
from gpuyard.errors import InputError
from gpuyard.fabric import Fabric
from gpuyard.simulate.comparison import PhaseTimes, StepRun
from gpuyard.simulate.heat import Heat, heat_of

__all__ = ["fabric_heat"]

MOST_HOSTS = 9000  # beyond which making a drawing takes longer than reading it is worth
IN_LEVELS = ("all-reduce", "all-gather", "reduce-scatter")  # inside the servers, then over the rails
DEFAULT = Collective(name="all-reduce", size_bytes=1e9)


def fabric_heat(fabric: Fabric, step: StepRun | None, layers: Sequence[Path] = ()) -> Heat | None:
    """The load of the links under it; None for a fabric that is too large to draw, or for one without levels."""
    site = site_of_fabric(fabric, load_catalog(layers))
    if not 2 <= site.network.host_count <= MOST_HOSTS:
        return None
    heaviest = _heaviest(step.phases if step is not None else ())
    asked = Collective(
        name=heaviest.collective if heaviest else DEFAULT.name,
        size_bytes=heaviest.size_bytes if heaviest else DEFAULT.size_bytes,
        algorithm="hierarchical" if min(fabric.demand.gpus_per_server, fabric.demand.server_count) > 1 else "ring",
    )
    try:
        return heat_of(simulate_collective(site, asked, Play(engine="flow")))
    except InputError:
        return None


def _heaviest(phases: Sequence[PhaseTimes]) -> PhaseTimes | None:
    """The collective between servers that moves most."""
    far = [phase for phase in phases if phase.axis != "tp" and phase.collective in IN_LEVELS]
    return max(far, key=lambda phase: phase.size_bytes, default=None)

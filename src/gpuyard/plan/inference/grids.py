"""Candidate replicas of one chip with formats, engines and layouts that exist together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import Precision
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.inference.shape import decoder_of
from gpuyard.plan.engine_commands import servers_for
from gpuyard.plan.inference.candidates import ChipGrid, grid_of, replicas_of
from gpuyard.plan.inference.cpu_serving import calibration, engine_named, serving_on
from gpuyard.plan.inference.formats import NARROW, formats, four_bits, native
from gpuyard.plan.inference.layouts import layouts, machines_of
from gpuyard.plan.inference.load import ServingLoad
from gpuyard.plan.inference.pinned import keep_formats, keeps_engine, keeps_layout
from gpuyard.plan.serving_checkpoint import splits_blocks
from gpuyard.workload.workload import Workload


def chip_grid(
    workload: Workload,
    model: Model,
    load: ServingLoad,
    catalog: Catalog,
    chip: Chip,
    machines: Sequence[Machine],
) -> ChipGrid:
    """Return the grid of one chip; 4-bit weights are tried where no wider dtype fits."""
    serving = serving_on(machines[0], chip)
    shape = model.transformer
    assert serving is not None, "excluded before"
    assert shape is not None, "checked by the caller"
    decoder = decoder_of(model)
    placed = [
        layout
        for layout in layouts(shape)
        if keeps_layout(workload, layout)
        and any(machines_of(layout, machine) for machine in machines)
    ]
    requested = workload.requirements.precision
    checkpoints = catalog.checkpoints

    def configurations(
        dtypes: Iterable[Precision],
    ) -> list[tuple[ServingEngine, Precision, ReplicaLayout]]:
        return [
            (engine_named(server.models), dtype, layout)
            for dtype in dtypes
            for server in servers_for(chip)
            if keeps_engine(workload, server.name)
            and server.serves(model, dtype.weights, chip)
            and (loaded := server.checkpoint(model, dtype.weights, checkpoints))
            for layout in placed
            if server.runs_layout(layout)
            and layout.chips >= loaded.minimum_chips(server.name, chip.name)
            and not splits_blocks(model, dtype.weights, layout)
        ]

    wide = configurations(
        keep_formats(workload, formats(model, chip, serving, requested, checkpoints))
    )
    fitting, big = replicas_of(serving, decoder, load, wide, calibration())
    served = {
        machine.name
        for machine in machines
        for item in fitting
        if machines_of(item.layout, machine)
    }
    pinned = workload.pinned is not None and workload.pinned.weights is not None
    free = requested is None and not pinned and native(model, checkpoints) is None
    if free and any(machine.name not in served for machine in machines):
        narrow = configurations(four_bits(chip, serving))
        more, still_big = replicas_of(serving, decoder, load, narrow, calibration())
        fitting += more
        big += still_big
    return grid_of(chip, fitting, big, load)


def placed_on(grid: ChipGrid, machine: Machine) -> ChipGrid:
    """Return what the machine can hold; 4-bit weights only if no wider dtype fits."""
    placed = [
        index for index, replica in enumerate(grid.replicas) if machines_of(replica.layout, machine)
    ]
    wide = [index for index in placed if grid.replicas[index].precision.weights not in NARROW]
    placed = wide or placed
    # Pipeline stages inside a machine are for chips without a scale-up link
    # (docs.vllm.ai, serving/parallelism_scaling).
    if grid.chip.scale_up is not None:
        flat = [
            index
            for index in placed
            if grid.replicas[index].layout.pp == 1
            or machines_of(grid.replicas[index].layout, machine) > 1
        ]
        placed = flat or placed
    return grid.take(placed)

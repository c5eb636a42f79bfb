"""Invariant of serving commands: the weights that they load fit into the GPUs that they use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.errors import Finding
from gpuyard.provision.artefact_document import ValueView
from gpuyard.provision.invariants.lint_bundle import LintBundle, invariant

SERVER = re.compile(r"(?:vllm serve|--model-path|--model|trtllm-serve)[ =]+([\w./-]+)")
PARALLEL = re.compile(
    r"--(?:tensor-parallel-size|pipeline-parallel-size|tp-size|pp-size|tp_size|pp_size)[ =]+(\d+)"
)
QUANTISED = re.compile(r"--quantization|\bquantization=")
# Layouts whose share per GPU does not follow from the sizes above.
OTHER_LAYOUTS = re.compile(r"data-parallel|expert-parallel|attention_dp|dp-size|ep[-_]size")
BYTES_PER_PARAMETER = 2.0  # checkpoints on model hubs are in bf16 unless their name says otherwise
GB = 1e9


@invariant("weights-fit", applies_to="pods, startup scripts", source="catalog models, chips")
def weights_fit_into_memory(bundle: LintBundle) -> Iterator[Finding]:
    """The checkpoint that a serving command names fits into the memory of its GPUs."""
    for view, machine, script in _servers(bundle):
        match = SERVER.search(script)
        model = _model(bundle, match.group(1)) if match else None
        if model is None or match is None or _is_narrow(bundle, model):
            continue
        if QUANTISED.search(script) or OTHER_LAYOUTS.search(script):
            continue
        gpus = 1
        for size in PARALLEL.findall(script):
            gpus *= int(size)
        chip = next((row for row in bundle.catalog.chips if row.name == machine.chip), None)
        if chip is None:
            continue
        weights_bytes = BYTES_PER_PARAMETER * model.parameters_count
        if weights_bytes > gpus * chip.memory_bytes:
            yield view.error(
                f"{match.group(1)} has {weights_bytes / GB:,.0f} GB of 16-bit weights, and "
                f"{gpus} × {chip.name} {gpus * chip.memory_bytes / GB:,.0f} GB of memory",
                "name a quantised checkpoint, or use more GPUs per replica",
            )


def _model(bundle: LintBundle, name: str) -> Model | None:
    # Only names of hubs: the name of a quantised checkpoint differs.
    models = bundle.catalog.models
    return next((row for row in models if "/" in name and name in row.aliases), None)


def _is_narrow(bundle: LintBundle, model: Model) -> bool:
    """Return True if the maker publishes the model in fewer bits than 16 only."""
    formats = {row.format for row in bundle.catalog.checkpoints if row.model == model.name}
    return bool(formats) and "bf16" not in formats


def _servers(bundle: LintBundle) -> Iterator[tuple[ValueView, Machine, str]]:
    for pod in bundle.pods:
        if pod.machine is not None and not pod.is_batch:
            yield pod.template, pod.machine, pod.script
    for properties in bundle.of_kind("InstanceProperties"):
        machine = bundle.machine(properties["machineType"].last_segment)
        if machine is not None:
            for row in properties.at("metadata", "items").items:
                yield row["value"], machine, row["value"].text

"""A replica configured by name (machine, layout, dtypes, engine), from flags or an option."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyard.catalog.checkpoints import Checkpoint
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.errors import Infeasible, InputError, closest_match
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import kv_cache_capacity, limits, with_graphs
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision
from gpuyard.perf.inference.roofline_terms import costs_row
from gpuyard.perf.inference.shape import decoder_of
from gpuyard.plan.engine_commands import servers_for
from gpuyard.plan.inference.candidates import TooBig, with_headroom
from gpuyard.plan.inference.cpu_serving import calibration, engine_named, processor_of, serving_on
from gpuyard.plan.inference.disaggregated import ENGINES, can_transfer_kv, with_kv_transfer
from gpuyard.plan.inference.formats import native
from gpuyard.plan.inference.layouts import has_fabric
from gpuyard.plan.inference.load import ServingLoad
from gpuyard.plan.inference.replica import PrefillReplicas, Replica
from gpuyard.plan.option import Option
from gpuyard.units import MEMORY, show

# Other names of dtypes: fp16 costs the same as bf16, and int4 is what engines load most.
DTYPE_ALIASES = {
    "fp16": "bf16",
    "float16": "bf16",
    "bfloat16": "bf16",
    "int4": "int4-weights",
    "awq": "int4-weights",
    "gptq": "int4-weights",
    "fp4": "nvfp4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillConfig:
    """Prefill replicas of disaggregated serving."""

    replicas: int
    tp: int = 1
    ep: int = 1
    attention_dp: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """A replica configuration by name."""

    machine: str
    replicas: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1
    weights: str = ""  # empty: the published dtype
    kv: str = "bf16"
    engine: str = ""  # empty: the preferred engine of the chip
    sequences: int = 0  # maximum concurrent per replica; 0: the engine's default
    prefill: PrefillConfig | None = None  # with it, the replicas only decode


def config_of_option(option: Option) -> ReplicaConfig:
    """Return the configuration of a planned service."""
    service = option.service
    assert service is not None, "the option is of an inference plan"
    pool = service.prefill
    return ReplicaConfig(
        machine=option.cluster.machine,
        replicas=service.replicas - service.spare_replicas,
        tp=service.tp,
        pp=service.pp,
        ep=service.ep,
        attention_dp=service.attention_dp,
        weights=service.weights,
        kv=service.kv,
        engine=service.engine.name,
        sequences=service.max_sequences_count,
        prefill=PrefillConfig(
            replicas=pool.replicas, tp=pool.tp, ep=pool.ep, attention_dp=pool.attention_dp
        )
        if pool
        else None,
    )


def configure_replica(
    config: ReplicaConfig, model: Model, load: ServingLoad, catalog: Catalog
) -> tuple[Machine, Replica] | Infeasible:
    """Return the machine and the replica, or Infeasible if it does not fit in memory."""
    machine = catalog.machine(config.machine)
    chip = catalog.chip(machine.chip) if machine.chip else processor_of(machine, catalog)
    serving = serving_on(machine, chip) if chip else None
    if chip is None or serving is None:
        raise InputError.one(
            "--machine",
            f"serving on {machine.name} is not modelled",
            "choose a machine with GPUs or TPUs",
        )
    servers = {server.name: server for server in servers_for(chip)}
    if config.engine and config.engine not in servers:
        meant = closest_match(config.engine, servers)
        fix = f'use "{meant}"' if meant else f"use one of {', '.join(servers)}"
        raise InputError.one(
            "--engine", f'no engine named "{config.engine}" runs on {chip.label}', fix
        )
    assert model.transformer is not None, "checked by the caller"
    engine = engine_named(servers[config.engine or next(iter(servers))].models)
    precision = _precision(config, model, catalog.checkpoints)
    shape = decoder_of(model)
    layout = ReplicaLayout(
        tp=config.tp, pp=config.pp, ep=config.ep, attention_dp=config.attention_dp
    )
    _check(layout, model, machine)
    kv_cache = kv_cache_capacity(shape, serving, precision, layout, engine, calibration())
    engine = with_headroom(engine, serving, kv_cache)
    kv_cache = kv_cache_capacity(shape, serving, precision, layout, engine, calibration())
    if kv_cache.blocks < 1 or kv_cache.sequences(load.total_tokens) < 1:
        request_bytes = kv_cache.token_bytes * load.total_tokens
        needed = kv_cache.weight_bytes + kv_cache.reserve_bytes + request_bytes
        share = 1.0 if engine.memory == "free" else engine.memory_ratio
        big = TooBig(
            layout=layout,
            needed_bytes=needed,
            memory_bytes=serving.memory_bytes * share,
            precision=precision,
        )
        return Infeasible(
            binding="memory",
            what=f"{model.label} in {precision.weights} on {layout.chips} × {chip.label} needs "
            f"{show(big.needed_bytes, MEMORY)} of {show(big.memory_bytes, MEMORY)} per chip",
            fix=_memory_fix(layout.chips * big.ratio, model, load),
        )
    caps = limits(engine, kv_cache, load.input_tokens, load.output_tokens, stages=layout.pp)
    if config.sequences:
        caps = replace(
            caps, sequences=min(caps.sequences, max(1, config.sequences // layout.attention_dp))
        )
    row = costs_row(
        shape, serving, precision, layout, with_graphs(engine, caps, layout.pp), calibration()
    )
    return machine, Replica(
        chip=serving,
        engine=engine,
        precision=precision,
        layout=layout,
        room=kv_cache,
        limits=caps,
        row=row,
        kind=shape.kind,
        unmeasured=shape.unmeasured,
    )


def configure_prefill(
    config: ReplicaConfig,
    decode_replica: Replica,
    model: Model,
    load: ServingLoad,
    catalog: Catalog,
) -> PrefillReplicas | Infeasible | None:
    """Return the prefill pool, or None without disaggregation."""
    prefill = config.prefill
    if prefill is None:
        return None
    prefill_config = replace(
        config,
        tp=prefill.tp,
        pp=1,
        ep=prefill.ep,
        attention_dp=prefill.attention_dp,
        sequences=0,
        prefill=None,
    )
    configured = configure_replica(prefill_config, model, load, catalog)
    if isinstance(configured, Infeasible):
        return configured
    machine, prefill_replica = configured
    if not can_transfer_kv(machine):
        what = f"{machine.name} has no RDMA network of a known rate for KV-cache transfer"
        fix = "choose a machine with RoCE or InfiniBand, such as a3-ultragpu-8g"
        raise InputError.one("--prefill-replicas", what, fix)
    if decode_replica.engine.name not in ENGINES or config.pp > 1:
        unsupported = "pipeline parallelism" if config.pp > 1 else decode_replica.engine.name
        what = f"disaggregated serving does not support {unsupported}"
        fix = "use vllm, sglang or tensorrt-llm without --pp"
        raise InputError.one("--prefill-replicas", what, fix)
    return with_kv_transfer(machine, prefill_replica, decode_replica, prefill.replicas)


def _memory_fix(chips: float, model: Model, load: ServingLoad) -> str:
    context = model.transformer.max_context_tokens if model.transformer else None
    if context and load.total_tokens > context:
        return (
            f"keep requests within the model's context of {context:,} tokens; "
            f"these have {load.total_tokens:,.6g}"
        )
    return (
        f"use at least {_next_power_of_two(chips):,} chips per replica, or a narrower weight dtype"
    )


def _next_power_of_two(value: float) -> int:
    power = 1
    while power < value:
        power *= 2
    return power


def _precision(config: ReplicaConfig, model: Model, checkpoints: Sequence[Checkpoint]) -> Precision:
    own = native(model, checkpoints)
    name = config.weights or (own.weights if own else "bf16")
    weights = DTYPE_ALIASES.get(name, name)
    if weights not in FORMATS:
        meant = closest_match(weights, FORMATS)
        raise InputError.one(
            "--weights", f'no dtype named "{weights}"', f"use {meant or ', '.join(FORMATS)}"
        )
    if config.kv not in KV_BYTES:
        raise InputError.one("--kv", f'no dtype named "{config.kv}"', f"use {', '.join(KV_BYTES)}")
    attention = own.attention if own and own.weights == weights else None
    return Precision(weights=weights, attention=attention, kv=config.kv)


def _check(layout: ReplicaLayout, model: Model, machine: Machine) -> None:
    """Reject parallel sizes that do not divide the model or the machine."""
    shape = model.transformer
    assert shape is not None, "checked by the caller"
    if shape.heads % layout.tp:
        raise InputError.one(
            "--tp", f"{layout.tp} does not divide the {shape.heads} heads", "use a divisor"
        )
    if shape.layers % layout.pp:
        raise InputError.one(
            "--pp",
            f"{layout.pp} does not divide the {shape.layers} layers",
            "use a divisor",
        )
    if (layout.ep > 1 or layout.attention_dp > 1) and shape.moe is None:
        raise InputError.one(
            "--ep", f"{model.label} is not a MoE model", "remove --ep and --attention-dp"
        )
    if shape.moe and shape.moe.experts % layout.ep:
        raise InputError.one(
            "--ep", f"{layout.ep} does not divide the {shape.moe.experts} experts", "use a divisor"
        )
    if machine.chip is not None and machine.chip_count < 1:
        raise InputError.one(
            "--machine",
            f"{machine.name} has a fractional chip",
            "choose a machine with a whole chip",
        )
    chips = int(machine.chip_count) or 1
    if layout.chips > chips and not has_fabric(machine):
        what = (
            f"{machine.name} has {chips} chip{'s' if chips > 1 else ''} and no fabric for a "
            f"replica of {layout.chips} chips"
        )
        fix = f"use a machine with {layout.chips} chips, or with a fabric, such as a3-ultragpu-8g"
        raise InputError.one("--machine", what, fix)
    if (layout.chips > chips and layout.chips % chips) or (
        layout.chips <= chips and chips % layout.chips
    ):
        what = f"{layout.chips} chips per replica do not fit the {chips} of {machine.name} evenly"
        raise InputError.one("--machine", what, "use a divisor or a multiple")

"""A replica by name: a machine, a layout, formats and a server as someone writes them, or as an option holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuyard.catalog import Catalog, Machine, Model
from gpuyard.errors import Infeasible, InputError, nearest
from gpuyard.perf.inference import Precision, ReplicaLayout, costs_row, limits, room, shape_of, with_graphs
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES
from gpuyard.plan.engines import servers_for
from gpuyard.plan.inference.formats import native
from gpuyard.plan.inference.grid import TooBig
from gpuyard.plan.inference.layouts import joined
from gpuyard.plan.inference.load import Load
from gpuyard.plan.inference.pools import ENGINES, handing, hands_over
from gpuyard.plan.inference.processors import calibration, engine_named, processor_of, serving_on
from gpuyard.plan.inference.replica import PromptPool, Replica
from gpuyard.plan.option import Option
from gpuyard.units import MEMORY, show

__all__ = ["Named", "Readers", "configured", "named_of", "read_apart"]

# what people call formats: sixteen bits cost the same in either kind, four are those that engines load most
ALSO = {
    "fp16": "bf16",
    "float16": "bf16",
    "bfloat16": "bf16",
    "int4": "int4-weights",
    "awq": "int4-weights",
    "gptq": "int4-weights",
    "fp4": "nvfp4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Replicas that read prompts for the others."""

    replicas: int
    tp: int = 1
    ep: int = 1
    attention_dp: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A configuration by its names."""

    machine: str
    replicas: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1
    weights: str = ""  # empty: as published
    kv: str = "bf16"
    engine: str = ""  # empty: the one to prefer on the chip
    sequences: int = 0  # at once in one replica; 0: as the engine sets it
    readers: Readers | None = None  # with them, the replicas only write


def named_of(option: Option) -> Named:
    """The configuration of an option."""
    service = option.service
    assert service is not None, "callers ask for a service"
    pool = service.prefill
    return Named(
        machine=option.cluster.machine,
        replicas=service.replicas - service.spare_replicas,
        tp=service.tp,
        pp=service.pp,
        ep=service.ep,
        attention_dp=service.attention_dp,
        weights=service.weights,
        kv=service.kv,
        engine=service.engine.name,
        sequences=service.most_sequences_count,
        readers=Readers(replicas=pool.replicas, tp=pool.tp, ep=pool.ep, attention_dp=pool.attention_dp)
        if pool
        else None,
    )


def configured(named: Named, model: Model, load: Load, catalog: Catalog) -> tuple[Machine, Replica] | Infeasible:
    """The machine and the replica; InputError for what does not exist, Infeasible for what does not fit."""
    machine = catalog.machine(named.machine)
    chip = catalog.chip(machine.chip) if machine.chip else processor_of(machine, catalog)
    serving = serving_on(machine, chip) if chip else None
    if chip is None or serving is None:
        raise InputError.one(
            "--machine", f"nothing is known of serving on {machine.name}", "choose one with GPUs or TPUs"
        )
    servers = {server.name: server for server in servers_for(chip)}
    if named.engine and named.engine not in servers:
        meant = nearest(named.engine, servers)
        fix = f'use "{meant}"' if meant else f"use one of {', '.join(servers)}"
        raise InputError.one("--engine", f'no engine named "{named.engine}" runs on {chip.label}', fix)
    assert model.transformer is not None, "callers ask for a transformer"
    engine = engine_named(servers[named.engine or next(iter(servers))].models)
    precision, shape = _precision(named, model), shape_of(model.transformer)
    layout = ReplicaLayout(tp=named.tp, pp=named.pp, ep=named.ep, attention_dp=named.attention_dp)
    _check(layout, model, machine)
    held = room(shape, serving, precision, layout, engine, calibration())
    if held.blocks < 1 or held.sequences(load.total_tokens) < 1:
        needed = held.weight_bytes + held.reserve_bytes + held.token_bytes * load.total_tokens
        share = 1.0 if engine.memory == "free" else engine.memory_ratio
        big = TooBig(
            layout=layout, needed_bytes=needed, memory_bytes=serving.memory_bytes * share, precision=precision
        )  # fmt: skip
        return Infeasible(
            binding="memory",
            what=f"{model.label} in {precision.weights} on {layout.chips} × {chip.label} needs "
            f"{show(big.needed_bytes, MEMORY)} of {show(big.memory_bytes, MEMORY)} a chip",
            fix=_room_fix(layout.chips * big.ratio, model, load),
        )
    caps = limits(engine, held, load.input_tokens, load.output_tokens, stages=layout.pp)
    if named.sequences:
        caps = replace(caps, sequences=min(caps.sequences, max(1, named.sequences // layout.attention_dp)))
    row = costs_row(shape, serving, precision, layout, with_graphs(engine, caps, layout.pp), calibration())
    return machine, Replica(
        chip=serving, engine=engine, precision=precision, layout=layout, room=held, limits=caps, row=row
    )  # fmt: skip


def read_apart(
    named: Named, writer: Replica, model: Model, load: Load, catalog: Catalog
) -> PromptPool | Infeasible | None:
    """The pool that reads prompts for the writers; None where they read themselves."""
    readers = named.readers
    if readers is None:
        return None
    shaped = replace(
        named, tp=readers.tp, pp=1, ep=readers.ep, attention_dp=readers.attention_dp, sequences=0, readers=None
    )  # fmt: skip
    found = configured(shaped, model, load, catalog)
    if isinstance(found, Infeasible):
        return found
    machine, reader = found
    if not hands_over(machine):
        what = f"{machine.name} has no RDMA network, or none of a known rate, to hand a cache over"
        raise InputError.one("--prefill-replicas", what, "choose one with RoCE or InfiniBand, such as a3-ultragpu-8g")
    if writer.engine.name not in ENGINES or named.pp > 1:
        what = "pipelines are not read apart" if named.pp > 1 else f"{writer.engine.name} has no pools apart"
        raise InputError.one("--prefill-replicas", what, "use vllm, sglang or tensorrt-llm without --pp")
    return handing(machine, reader, writer, readers.replicas)


def _room_fix(chips: float, model: Model, load: Load) -> str:
    """What would hold it: shorter requests where they are beyond the model, else more chips."""
    most = model.transformer.max_context_tokens if model.transformer else None
    if most and load.total_tokens > most:
        return f"keep requests within the model's context of {most:,} tokens; these have {load.total_tokens:,.6g}"
    return f"use at least {_next_power(chips):,} chips a replica, or fewer bits a weight"


def _next_power(value: float) -> int:
    """The power of two that is no smaller."""
    power = 1
    while power < value:
        power *= 2
    return power


def _precision(named: Named, model: Model) -> Precision:
    """The formats by name."""
    own = native(model)
    asked = named.weights or (own.weights if own else "bf16")
    weights = ALSO.get(asked, asked)
    if weights not in FORMATS:
        meant = nearest(weights, FORMATS)
        raise InputError.one("--weights", f'no format named "{weights}"', f"use {meant or ', '.join(FORMATS)}")
    if named.kv not in KV_BYTES:
        raise InputError.one("--kv", f'no format named "{named.kv}"', f"use {', '.join(KV_BYTES)}")
    attention = own.attention if own and own.weights == weights else None
    return Precision(weights=weights, attention=attention, kv=named.kv)


def _check(layout: ReplicaLayout, model: Model, machine: Machine) -> None:
    """Degrees that the model or the machine does not divide into."""
    shape = model.transformer
    assert shape is not None, "callers ask for a transformer"
    if shape.heads % layout.tp:
        raise InputError.one("--tp", f"{layout.tp} does not divide the {shape.heads} heads", "use a divisor of them")
    if shape.layers % layout.pp:
        raise InputError.one("--pp", f"{layout.pp} does not divide the {shape.layers} layers", "use a divisor of them")
    if (layout.ep > 1 or layout.attention_dp > 1) and shape.moe is None:
        raise InputError.one("--ep", f"{model.label} has no experts to spread", "leave --ep and --attention-dp out")
    if shape.moe and shape.moe.experts % layout.ep:
        raise InputError.one("--ep", f"{layout.ep} does not divide the {shape.moe.experts} experts", "use a divisor")
    if machine.chip is not None and machine.chip_count < 1:
        raise InputError.one("--machine", f"{machine.name} has a share of a chip", "choose one with a whole chip")
    chips = int(machine.chip_count) or 1
    if layout.chips > chips and not joined(machine):
        what = f"{machine.name} has {chips} chip{'s' if chips > 1 else ''}, and no network that a replica could span"
        fix = f"use a machine with {layout.chips} chips a replica, or one with a fabric, such as a3-ultragpu-8g"
        raise InputError.one("--machine", f"{what}; {layout.chips} are asked for", fix)
    if (layout.chips > chips and layout.chips % chips) or (layout.chips <= chips and chips % layout.chips):
        what = f"{layout.chips} chips a replica do not go evenly into the {chips} of {machine.name}"
        raise InputError.one("--machine", what, "use a divisor or a multiple of them")

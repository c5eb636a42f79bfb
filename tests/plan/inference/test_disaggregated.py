"""Disaggregated prefill/decode: planned only where it pays, targets met, minimal machines."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.app.inference import events_of
from gpuyard.errors import Infeasible
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.plan.inference.candidates import grid_of
from gpuyard.plan.inference.disaggregated import (
    PrefillDecodePair,
    kv_transfer_setup_s,
    machines_for_pair,
    pairs,
    prefill_s,
)
from gpuyard.plan.inference.load import ServingLoad, Targets, load_of
from gpuyard.plan.inference.refine import CachedServingModel, size_pair_under_load
from gpuyard.plan.inference.replica import PrefillReplicas, Replica, ReplicaLatencies
from gpuyard.plan.inference.replica_config import (
    PrefillConfig,
    ReplicaConfig,
    configure_prefill,
    configure_replica,
)
from gpuyard.plan.inference.search import plan_inference
from gpuyard.plan.option import Option, Plan
from gpuyard.simulate.serving.simulated_serving import SimulatedServing, _Service
from gpuyard.workload.workload import Workload

from .services import CATALOG, workload

LONG = ServingLoad(
    requests_per_s=50.0,
    users=None,
    input_tokens=8000.0,
    output_tokens=300.0,
    long_output_tokens=1000.0,
)


def _long(more: str = "") -> Workload:
    """Long prompts, many of them, and little time for a token."""
    where = f"machines: [a4-highgpu-8g]{more}"
    targets, lengths = "ttft: 3s, tpot: 12ms", "input: 8000, output: 300"
    return workload("llama-3.1-70b", rate="50/s", targets=targets, lengths=lengths, where=where)


@cache
def _planned(more: str = "") -> Plan:
    wanted = _long(more)
    found = plan_inference(wanted, CATALOG, load_of(wanted), events_of(wanted, None, 0))
    assert isinstance(found, Plan), str(found)
    return found


def _both(found: Plan) -> tuple[Option, Option]:
    """The option with prompts read apart, and the one without."""
    apart = [option for option in found.options if option.service and option.service.prefill]
    together = [option for option in found.options if option.service and not option.service.prefill]
    assert len(apart) == len(together) == 1
    return apart[0], together[0]


def test_disaggregated_option_is_planned_where_cheaper() -> None:
    apart, together = _both(_planned())
    assert apart.usd is not None
    assert together.usd is not None
    assert apart.usd < together.usd
    service = apart.service
    assert service is not None
    assert service.prefill is not None
    assert service.ttft is not None
    assert service.tpot is not None
    assert service.ttft.mean_s <= 3.0
    assert service.tpot.mean_s <= 0.012
    assert service.ttft.mean_s > service.prefill.prefill_s + service.prefill.kv_transfer_s
    assert service.prefill.kv_transfer_s > kv_transfer_setup_s()
    pool = service.prefill
    chips = pool.replicas * pool.chips_per_replica + service.replicas * service.chips_per_replica
    assert chips <= apart.cluster.chip_count < chips + 8


def test_disaggregated_option_has_wider_error_bars() -> None:
    apart, _ = _both(_planned())
    assert apart.service is not None
    assert apart.service.ttft is not None
    assert apart.service.ttft.error_ratio > 1.0  # a first token is uncertain by more than itself
    assert any("0.1 to 0.2 s" in reason for reason in apart.reasons)
    assert any("are needed" in reason for reason in apart.reasons)


def test_disaggregated_option_alone_when_only_it_meets_targets() -> None:
    apart, together = _both(_planned())
    found = _planned(f", max_chips: {int(apart.cluster.chip_count)}")
    assert together.cluster.chip_count > apart.cluster.chip_count
    assert [option.cluster for option in found.options] == [apart.cluster]
    assert any("no service without it" in reason for reason in found.options[0].reasons)


@pytest.mark.parametrize(
    ("targets", "where"),
    [
        ("ttft: 3s", "machines: [a4-highgpu-8g]"),  # tokens may wait for prompts
        ("ttft: 3s, tpot: 60ms", "machines: [a4-highgpu-8g]"),  # and here they do
        ("ttft: 100ms, tpot: 12ms", "machines: [a4-highgpu-8g]"),  # no time to hand a cache over
        ("ttft: 3s, tpot: 12ms", "machines: [a3-highgpu-8g]"),  # no RDMA
    ],
)
def test_no_disaggregation_without_benefit(targets: str, where: str) -> None:
    wanted = workload(
        "llama-3.1-70b",
        rate="4/s",
        targets=targets,
        lengths="input: 2000, output: 300",
        where=where,
    )
    found = plan_inference(wanted, CATALOG, load_of(wanted), events_of(wanted, None, 0))
    options = found.options if isinstance(found, Plan) else ()
    assert not [option for option in options if option.service and option.service.prefill]


def _replica(tp: int, machine: str = "a4-highgpu-8g") -> Replica:
    named = ReplicaConfig(machine=machine, tp=tp, weights="fp8", kv="fp8", engine="vllm")
    found = configure_replica(named, CATALOG.model("llama-3.1-70b"), LONG, CATALOG)
    assert not isinstance(found, Infeasible)
    return found[1]


REPLICAS = {tp: _replica(tp) for tp in (1, 2, 4, 8)}
SIZES = st.sampled_from((1, 2, 4, 8))


@given(SIZES, st.integers(1, 30), SIZES, st.integers(1, 30))
def test_machines_for_pair_are_minimal(first: int, many: int, second: int, more: int) -> None:
    machine = CATALOG.machine("a4-highgpu-8g")
    count = machines_for_pair(machine, REPLICAS[first], many, REPLICAS[second], more)
    free = [8] * count
    for size in sorted(
        [first] * many + [second] * more, reverse=True
    ):  # the largest first, where there is room
        at = next(index for index, chips in enumerate(free) if chips >= size)
        free[at] -= size
    assert (first * many + second * more) > 8 * (count - 1)


def test_multi_machine_replica_takes_entire_machines() -> None:
    wide = replace(REPLICAS[8], layout=ReplicaLayout(tp=8, ep=32, attention_dp=4))
    machine = CATALOG.machine("a4-highgpu-8g")
    assert machines_for_pair(machine, wide, 2, REPLICAS[2], 3) == 2 * 4 + 1


class EnoughReplicas:
    """A serving model that meets its targets with enough prefill and decode replicas."""

    def __init__(self, prefill_replicas: int, decode_replicas: int) -> None:
        self.prefill_replicas = prefill_replicas
        self.decode_replicas = decode_replicas

    def serve(
        self,
        replica: Replica,
        replicas: int,
        load: ServingLoad,
        prefill: PrefillReplicas | None = None,
    ) -> ReplicaLatencies | Infeasible:
        assert prefill is not None
        late = 10.0 if prefill.replicas < self.prefill_replicas else 0.0
        first = _flat(0.5 + late)
        token = _flat(0.01 if replicas >= self.decode_replicas else 1.0)
        return ReplicaLatencies(
            ttft=first,
            tpot=token,
            e2e=first,
            requests_per_s=1.0,
            output_tokens_per_s=1.0,
            batch_count=1.0,
            queued_s=late,
        )


def _flat(value: float) -> LatencyQuantiles:
    return LatencyQuantiles(mean_s=value, p50_s=value, p90_s=value, p95_s=value, p99_s=value)


def _pair(prefill_replicas: int, decode_replicas: int) -> PrefillDecodePair:
    machine = CATALOG.machine("a4-highgpu-8g")
    prefill = PrefillReplicas(
        replica=REPLICAS[2], replicas=prefill_replicas, transfer_setup_s=0.15, token_s=1e-6
    )
    return PrefillDecodePair(
        machine=machine,
        prefill=prefill,
        decode=REPLICAS[4],
        decode_replicas=decode_replicas,
        sequences=8.0,
        ttft_s=0.5,
        tpot_s=0.01,
        e2e_s=3.0,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_bottleneck_pool_grows(
    start: int, begun: int, prefill_replicas: int, decode_replicas: int
) -> None:
    model = EnoughReplicas(prefill_replicas, decode_replicas)
    found = size_pair_under_load(
        _pair(start, begun), CachedServingModel(model, LONG), Targets(ttft_s=2.0, tpot_s=0.02), 1000
    )
    assert found is not None
    assert found.prefill is not None
    assert not found.missed
    assert found.prefill.replicas >= prefill_replicas
    assert found.replicas >= decode_replicas
    assert found.prefill.replicas <= max(start, prefill_replicas + 1)
    assert found.replicas <= max(begun, decode_replicas + 1)
    assert found.machine_count == machines_for_pair(
        CATALOG.machine("a4-highgpu-8g"),
        REPLICAS[2],
        found.prefill.replicas,
        REPLICAS[4],
        found.replicas,
    )


def test_pair_stays_within_allowed_machines() -> None:
    assert (
        size_pair_under_load(
            _pair(1, 1),
            CachedServingModel(EnoughReplicas(20, 20), LONG),
            Targets(ttft_s=2.0, tpot_s=0.02),
            4,
        )
        is None
    )


def _pool(prefill_replicas: int, decode_replicas: int, model: SimulatedServing) -> ReplicaLatencies:
    named = ReplicaConfig(
        machine="a4-highgpu-8g",
        tp=4,
        weights="fp8",
        kv="fp8",
        prefill=PrefillConfig(replicas=prefill_replicas, tp=2),
    )
    shape = CATALOG.model("llama-3.1-70b")
    prompts = configure_prefill(named, REPLICAS[4], shape, LONG, CATALOG)
    assert isinstance(prompts, PrefillReplicas)
    found = model.serve(REPLICAS[4], decode_replicas, replace(LONG, requests_per_s=5.0), prompts)
    assert isinstance(found, ReplicaLatencies)
    return found


def test_prefill_replicas_lower_ttft_and_decode_replicas_lower_tpot() -> None:
    model = SimulatedServing(context_tokens=131_072, seed=0)
    few, prefill_replicas, decode_replicas = (
        _pool(3, 1, model),
        _pool(6, 1, model),
        _pool(3, 3, model),
    )
    assert prefill_replicas.ttft.mean_s < few.ttft.mean_s
    assert decode_replicas.tpot.mean_s < few.tpot.mean_s
    assert few == _pool(3, 1, model)
    alone_s = prefill_s(REPLICAS[2], LONG) + kv_transfer_setup_s()
    assert few.ttft.mean_s > alone_s


@given(st.integers(1, 900), st.integers(1, 900))
def test_simulated_part_keeps_ratio_of_pools(prefill_replicas: int, decode_replicas: int) -> None:
    prompts = PrefillReplicas(
        replica=REPLICAS[2], replicas=prefill_replicas, transfer_setup_s=0.15, token_s=1e-6
    )
    part, share = _Service(
        replica=REPLICAS[4], replicas=decode_replicas, prompts=prompts
    ).scaled_down()
    assert part.prompts is not None
    assert part.replicas + part.prompts.replicas >= min(4, prefill_replicas + decode_replicas)
    assert (
        part.replicas <= share * decode_replicas + 1e-9
    )  # never more than its share of the service
    assert part.prompts.replicas <= share * prefill_replicas + 1e-9
    assert part.replicas > share * decode_replicas - 1.0
    assert part.prompts.replicas > share * prefill_replicas - 1.0
    if prefill_replicas + decode_replicas <= 64:
        assert part.replicas * prefill_replicas == part.prompts.replicas * decode_replicas


def test_closed_form_pairs_scale_with_load() -> None:
    wanted = _long()
    load = load_of(wanted)
    machine = CATALOG.machine("a4-highgpu-8g")
    grid = grid_of(CATALOG.chip("b200"), tuple(REPLICAS.values()), (), LONG)
    slow = pairs(grid, machine, load, Targets(ttft_s=3.0, tpot_s=0.012))
    twice = pairs(
        grid, machine, replace(load, requests_per_s=100.0), Targets(ttft_s=3.0, tpot_s=0.012)
    )
    for once, double in zip(slow, twice, strict=True):
        assert (
            math.ceil(once.machine_count * 2 * 0.8)
            <= double.machine_count
            <= once.machine_count * 2
        )
        assert once.ttft_s > kv_transfer_setup_s() + prefill_s(once.prefill.replica, load)
        assert once.tpot_s <= 0.012

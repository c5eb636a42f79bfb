"""Prompts read apart: offered only where it pays, every target kept, no machine too few, bars that are wider."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.app.events import EventModel, _Service
from gpuyard.app.inference import events_of
from gpuyard.errors import Infeasible
from gpuyard.perf.inference import ReplicaLayout
from gpuyard.plan import Option, Plan
from gpuyard.plan.inference import Latencies, Load, PromptPool, Quantiles, Replica, Targets, load_of
from gpuyard.plan.inference.configured import Named, Readers, configured, read_apart
from gpuyard.plan.inference.grid import grid_of
from gpuyard.plan.inference.pools import Pair, handover_s, machines_for_pair, pairs, prompt_s
from gpuyard.plan.inference.refine import Simulated, refined_pair
from gpuyard.plan.inference.search import plan_inference
from gpuyard.workload import Workload

from .services import CATALOG, workload

LONG = Load(requests_per_s=50.0, users=None, input_tokens=8000.0, output_tokens=300.0, long_output_tokens=1000.0)


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


def test_pools_stand_beside_one_pool_where_they_are_cheaper() -> None:
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
    assert service.ttft.mean_s > service.prefill.prompt_s + service.prefill.handover_s
    assert service.prefill.handover_s > handover_s()
    pool = service.prefill
    chips = pool.replicas * pool.chips_per_replica + service.replicas * service.chips_per_replica
    assert chips <= apart.cluster.chip_count < chips + 8


def test_the_bars_of_pools_are_wider_and_say_why() -> None:
    apart, _ = _both(_planned())
    assert apart.service is not None
    assert apart.service.ttft is not None
    assert apart.service.ttft.error_ratio > 1.0  # a first token is uncertain by more than itself
    assert any("0.1 to 0.2 s" in reason for reason in apart.reasons)
    assert any("are needed" in reason for reason in apart.reasons)


def test_pools_alone_where_nothing_else_keeps_the_targets() -> None:
    apart, together = _both(_planned())
    found = _planned(f", max_chips: {int(apart.cluster.chip_count)}")
    assert together.cluster.chip_count > apart.cluster.chip_count
    assert [option.cluster for option in found.options] == [apart.cluster]
    assert any("no service of replicas that do both" in reason for reason in found.options[0].reasons)


@pytest.mark.parametrize(
    ("targets", "where"),
    [
        ("ttft: 3s", "machines: [a4-highgpu-8g]"),  # tokens may wait for prompts
        ("ttft: 3s, tpot: 60ms", "machines: [a4-highgpu-8g]"),  # and here they do
        ("ttft: 100ms, tpot: 12ms", "machines: [a4-highgpu-8g]"),  # no time to hand a cache over
        ("ttft: 3s, tpot: 12ms", "machines: [a3-highgpu-8g]"),  # no RDMA
    ],
)
def test_no_pools_where_they_cannot_pay(targets: str, where: str) -> None:
    wanted = workload("llama-3.1-70b", rate="4/s", targets=targets, lengths="input: 2000, output: 300", where=where)
    found = plan_inference(wanted, CATALOG, load_of(wanted), events_of(wanted, None, 0))
    options = found.options if isinstance(found, Plan) else ()
    assert not [option for option in options if option.service and option.service.prefill]


def _replica(tp: int, machine: str = "a4-highgpu-8g") -> Replica:
    named = Named(machine=machine, tp=tp, weights="fp8", kv="fp8", engine="vllm")
    found = configured(named, CATALOG.model("llama-3.1-70b"), LONG, CATALOG)
    assert not isinstance(found, Infeasible)
    return found[1]


REPLICAS = {tp: _replica(tp) for tp in (1, 2, 4, 8)}
SIZES = st.sampled_from((1, 2, 4, 8))


@given(SIZES, st.integers(1, 30), SIZES, st.integers(1, 30))
def test_machines_of_a_pair_hold_it_and_no_fewer_do(first: int, many: int, second: int, more: int) -> None:
    machine = CATALOG.machine("a4-highgpu-8g")
    count = machines_for_pair(machine, REPLICAS[first], many, REPLICAS[second], more)
    free = [8] * count
    for size in sorted([first] * many + [second] * more, reverse=True):  # the largest first, where there is room
        at = next(index for index, chips in enumerate(free) if chips >= size)
        free[at] -= size
    assert (first * many + second * more) > 8 * (count - 1)


def test_a_replica_over_several_machines_takes_them_whole() -> None:
    wide = replace(REPLICAS[8], layout=ReplicaLayout(tp=8, ep=32, attention_dp=4))
    machine = CATALOG.machine("a4-highgpu-8g")
    assert machines_for_pair(machine, wide, 2, REPLICAS[2], 3) == 2 * 4 + 1


class Needs:
    """Keeps its time with so many readers and writers, and says which of them are too few."""

    def __init__(self, readers: int, writers: int) -> None:
        self.readers, self.writers, self.asked = readers, writers, 0

    def serve(
        self, replica: Replica, replicas: int, load: Load, prompts: PromptPool | None = None  # noqa: ARG002
    ) -> Latencies | Infeasible:  # fmt: skip
        """In time when there are enough."""
        assert prompts is not None
        self.asked += 1
        late = 10.0 if prompts.replicas < self.readers else 0.0
        first, token = _flat(0.5 + late), _flat(0.01 if replicas >= self.writers else 1.0)
        return Latencies(
            ttft=first, tpot=token, e2e=first, requests_per_s=1.0, output_tokens_per_s=1.0, batch_count=1.0,
            queued_s=late,
        )  # fmt: skip


def _flat(value: float) -> Quantiles:
    return Quantiles(mean_s=value, p50_s=value, p90_s=value, p99_s=value)


def _pair(readers: int, writers: int) -> Pair:
    machine = CATALOG.machine("a4-highgpu-8g")
    prompts = PromptPool(replica=REPLICAS[2], replicas=readers, handover_s=0.15, token_s=1e-6)
    return Pair(
        machine=machine, prompts=prompts, writer=REPLICAS[4], writers=writers, sequences=8.0, ttft_s=0.5, tpot_s=0.01,
        e2e_s=3.0,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_the_pool_that_is_behind_grows(start: int, begun: int, readers: int, writers: int) -> None:
    model = Needs(readers, writers)
    found = refined_pair(_pair(start, begun), Simulated(model, LONG), Targets(ttft_s=2.0, tpot_s=0.02), 1000)
    assert found is not None
    assert found.prompts is not None
    assert not found.missed
    assert found.prompts.replicas >= readers
    assert found.replicas >= writers
    assert found.prompts.replicas <= max(start, readers + 1)
    assert found.replicas <= max(begun, writers + 1)
    assert found.machine_count == machines_for_pair(
        CATALOG.machine("a4-highgpu-8g"), REPLICAS[2], found.prompts.replicas, REPLICAS[4], found.replicas
    )


def test_pools_stay_within_the_machines_that_are_allowed() -> None:
    assert refined_pair(_pair(1, 1), Simulated(Needs(20, 20), LONG), Targets(ttft_s=2.0, tpot_s=0.02), 4) is None


def _pool(readers: int, writers: int, model: EventModel) -> Latencies:
    named = Named(machine="a4-highgpu-8g", tp=4, weights="fp8", kv="fp8", readers=Readers(replicas=readers, tp=2))
    shape = CATALOG.model("llama-3.1-70b")
    prompts = read_apart(named, REPLICAS[4], shape, LONG, CATALOG)
    assert isinstance(prompts, PromptPool)
    found = model.serve(REPLICAS[4], writers, replace(LONG, requests_per_s=5.0), prompts)
    assert isinstance(found, Latencies)
    return found


def test_more_readers_are_sooner_and_more_writers_are_faster() -> None:
    model = EventModel(context_tokens=131_072, seed=0)
    few, readers, writers = _pool(3, 1, model), _pool(6, 1, model), _pool(3, 3, model)
    assert readers.ttft.mean_s < few.ttft.mean_s
    assert writers.tpot.mean_s < few.tpot.mean_s
    assert few == _pool(3, 1, model)
    alone_s = prompt_s(REPLICAS[2], LONG) + handover_s()
    assert few.ttft.mean_s > alone_s


@given(st.integers(1, 900), st.integers(1, 900))
def test_a_part_keeps_the_proportion(readers: int, writers: int) -> None:
    prompts = PromptPool(replica=REPLICAS[2], replicas=readers, handover_s=0.15, token_s=1e-6)
    part, share = _Service(replica=REPLICAS[4], replicas=writers, prompts=prompts).part()
    assert part.prompts is not None
    assert part.replicas + part.prompts.replicas >= min(4, readers + writers)
    assert part.replicas <= share * writers + 1e-9  # never more than its share of the service
    assert part.prompts.replicas <= share * readers + 1e-9
    assert part.replicas > share * writers - 1.0
    assert part.prompts.replicas > share * readers - 1.0
    if readers + writers <= 64:
        assert part.replicas * readers == part.prompts.replicas * writers


def test_the_closed_form_counts_what_the_load_needs() -> None:
    wanted = _long()
    load = load_of(wanted)
    machine = CATALOG.machine("a4-highgpu-8g")
    grid = grid_of(CATALOG.chip("b200"), tuple(REPLICAS.values()), (), LONG)
    slow = pairs(grid, machine, load, Targets(ttft_s=3.0, tpot_s=0.012))
    twice = pairs(grid, machine, replace(load, requests_per_s=100.0), Targets(ttft_s=3.0, tpot_s=0.012))
    for once, double in zip(slow, twice, strict=True):
        assert math.ceil(once.machine_count * 2 * 0.8) <= double.machine_count <= once.machine_count * 2
        assert once.ttft_s > handover_s() + prompt_s(once.prompts.replica, load)
        assert once.tpot_s <= 0.012

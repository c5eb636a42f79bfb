"""Parts of the serving search: layouts, redundancy, serverless instances, sizing under load."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.perf.inference.shape import shape_of
from gpuyard.plan.inference.cpu_serving import serving_on
from gpuyard.plan.inference.formats import formats, native
from gpuyard.plan.inference.layouts import layouts, machines_of, replicas_in
from gpuyard.plan.inference.load import ServingLoad, Targets, load_of
from gpuyard.plan.inference.redundancy import availability_ratio, groups_with_spares
from gpuyard.plan.inference.refine import CachedServingModel, SimulatedSizing, size_under_load
from gpuyard.plan.inference.rejection_reasons import min_decode_s
from gpuyard.plan.inference.replica import PrefillReplicas, Replica, ReplicaLatencies
from gpuyard.plan.inference.replica_config import ReplicaConfig, configure_replica
from gpuyard.plan.inference.serverless import alive_ratio, instance_for
from gpuyard.plan.inference.sizing import ReplicaSizing
from gpuyard.workload.where import Where

from .services import CATALOG, workload

LOAD = ServingLoad(
    requests_per_s=10.0,
    users=None,
    input_tokens=500.0,
    output_tokens=100.0,
    long_output_tokens=400.0,
)


@pytest.mark.parametrize("name", ["llama-3-70b", "deepseek-r1", "qwen3-30b-a3b", "falcon-7b"])
def test_layouts_divide_model(name: str) -> None:
    shape = CATALOG.model(name).transformer
    assert shape is not None
    found = layouts(shape)
    assert ReplicaLayout() in found
    assert len(found) == len(set(found))
    for layout in found:
        assert shape.heads % layout.tp == 0
        assert shape.layers % layout.pp == 0
        assert layout.ep == 1 or (shape.moe and shape.moe.experts % layout.ep == 0)


def test_machines_of_replica() -> None:
    machine = CATALOG.machine("a3-ultragpu-8g")
    assert replicas_in(ReplicaLayout(tp=4), machine) == 2
    assert machines_of(ReplicaLayout(tp=8, pp=2), machine) == 2
    assert (
        machines_of(ReplicaLayout(tp=16), machine) == 0
    )  # all-reduces would leave the scale-up link
    assert (
        machines_of(ReplicaLayout(tp=8, pp=2), CATALOG.machine("g2-standard-96")) == 0
    )  # no fabric between them
    assert replicas_in(ReplicaLayout(), CATALOG.machine("c3-standard-44")) == 1


@given(st.integers(1, 8), st.floats(1e-6, 0.05), st.floats(0.9, 0.99999))
def test_spares_meet_availability_target(needed: int, down: float, wanted: float) -> None:
    there = groups_with_spares(needed, down, wanted)
    assert there is not None
    assert availability_ratio(needed, there, down) >= wanted
    assert there == needed or availability_ratio(needed, there - 1, down) < wanted


def test_availability_of_all_groups_is_product() -> None:
    assert availability_ratio(3, 3, 0.1) == pytest.approx(0.9**3)
    assert availability_ratio(1, 2, 0.1) == pytest.approx(1 - 0.1**2)
    assert groups_with_spares(5, 0.1, None) == 5


@given(st.floats(1e-7, 1e3), st.floats(1.0, 3600.0))
def test_alive_ratio_of_random_arrivals(rate: float, idle_s: float) -> None:
    share = alive_ratio(rate, idle_s)
    assert 0.0 <= share <= 1.0
    assert share <= min(1.0, rate * idle_s) + 1e-12
    assert alive_ratio(2 * rate, idle_s) >= share


def test_cloud_run_instance_has_one_gpu() -> None:
    here = Where(region="us-central1")
    assert instance_for(CATALOG.machine("g2-standard-4"), here) is not None
    assert instance_for(CATALOG.machine("g2-standard-24"), here) is None
    assert instance_for(CATALOG.machine("a3-highgpu-1g"), here) is None
    assert (
        instance_for(CATALOG.machine("g2-standard-4"), Where(region="southamerica-east1")) is None
    )
    assert instance_for(CATALOG.machine("g2-standard-4"), Where(platform="gke")) is None


def test_native_dtype_of_published_checkpoints() -> None:
    oss, r1, llama = (CATALOG.model(name) for name in ("gpt-oss-120b", "deepseek-r1", "llama-3-8b"))
    assert native(oss, CATALOG.checkpoints) is not None
    assert native(llama, CATALOG.checkpoints) is None
    h100 = CATALOG.chip("h100-sxm")
    serving = serving_on(CATALOG.machine("a3-megagpu-8g"), h100)
    assert serving is not None
    assert {item.weights for item in formats(oss, h100, serving, None, CATALOG.checkpoints)} == {
        "mxfp4"
    }
    assert {item.weights for item in formats(r1, h100, serving, None, CATALOG.checkpoints)} == {
        "fp8-block"
    }
    assert {item.weights for item in formats(llama, h100, serving, None)} == {"bf16", "fp8"}
    assert {item.weights for item in formats(llama, h100, serving, "bf16")} == {"bf16"}


def test_load_of_workload() -> None:
    found = load_of(workload(lengths="input: 1000, output: 200, prefix_hit: 30%"))
    assert found.new_tokens == pytest.approx(700.0)
    assert found.total_tokens == pytest.approx(1200.0)
    assert found.long_output_tokens > 3 * found.output_tokens
    both = load_of(workload(lengths="input: 1000, output: 200, concurrency: 8"))
    assert both.users is None
    assert any("concurrency 8 does not limit" in note for note in both.notes)


def _replica(name: str = "llama-3-8b", machine: str = "a3-ultragpu-8g", tp: int = 1) -> Replica:
    found = configure_replica(
        ReplicaConfig(machine=machine, tp=tp), CATALOG.model(name), LOAD, CATALOG
    )
    assert not isinstance(found, Infeasible)
    return found[1]


def test_min_decode_time_is_weight_read_time() -> None:
    shape = CATALOG.model("llama-3-8b").transformer
    assert shape is not None
    one, eight = (
        min_decode_s(shape_of(shape), _replica()),
        min_decode_s(shape_of(shape), _replica(tp=8)),
    )
    assert one == pytest.approx(2.0 * (8.03e9 - 128256 * 4096) / 4.8e12, rel=0.03)
    assert eight == pytest.approx(one / 8, rel=0.01)


class Needs:
    """A model whose first token is in time with so many replicas."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.asked: list[int] = []

    def serve(
        self,
        replica: Replica,
        replicas: int,
        load: ServingLoad,
        prefill: PrefillReplicas | None = None,
    ) -> ReplicaLatencies | Infeasible:
        """In time when there are enough."""
        self.asked.append(replicas)
        slow = 0.1 if replicas >= self.replicas else 10.0
        flat = LatencyQuantiles(mean_s=slow, p50_s=slow, p90_s=slow, p95_s=slow, p99_s=slow)
        return ReplicaLatencies(
            ttft=flat,
            tpot=flat,
            e2e=flat,
            requests_per_s=10.0,
            output_tokens_per_s=1000.0,
            batch_count=1.0,
        )


def test_equal_replicas_are_cached() -> None:
    model = Needs(1)
    remembered = CachedServingModel(model, LOAD)
    first, second = _replica(), _replica()
    assert first is not second
    assert remembered.serve(first, 2) is remembered.serve(second, 2)
    remembered.serve(first, 3)
    remembered.serve(_replica(tp=2), 2)
    assert model.asked == [2, 3, 2]


def _refined(start: int, needed: int, most: int = 1000) -> tuple[SimulatedSizing, Needs]:
    machine, model = CATALOG.machine("g2-standard-4"), Needs(needed)
    sized = ReplicaSizing(
        machine=machine,
        replica=_replica(machine="g2-standard-4"),
        sequences=8.0,
        tpot_s=0.01,
        ttft_s=0.01,
        e2e_s=1.0,
        capacity=1.0,
        loaded_s=1.0,
        machine_count=start,
        targets=Targets(ttft_s=1.0),
    )
    found = size_under_load(sized, CachedServingModel(model, LOAD), most)
    assert isinstance(found, SimulatedSizing)
    return found, model


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_replicas_are_added_until_targets_are_met(start: int, needed: int) -> None:
    found, model = _refined(start, needed)
    if not found.missed:
        assert found.replicas >= needed
        assert found.replicas <= max(start, math.ceil(needed * 1.12) + 1)
    else:
        assert needed > start * 1.12**5
    assert len(model.asked) <= 7


def test_sizing_stays_within_allowed_machines() -> None:
    found, _ = _refined(2, 30, most=4)
    assert found.missed
    assert found.machine_count <= 4


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (ReplicaConfig(machine="a3-ultragpu-8g", tp=3), "--tp: 3 does not divide the 32 heads"),
        (
            ReplicaConfig(machine="a3-ultragpu-8g", ep=8),
            "--ep: Llama 3 8B is not a MoE model",
        ),
        (
            ReplicaConfig(machine="a3-ultragpu-8g", weights="fp9"),
            '--weights: no dtype named "fp9"',
        ),
        (ReplicaConfig(machine="a3-ultragpu-8g", kv="fp9"), '--kv: no dtype named "fp9"'),
        (ReplicaConfig(machine="a3-ultragpu-8g", engine="vlm"), '--engine: no engine named "vlm"'),
        (ReplicaConfig(machine="a3-ultra"), 'no row named "a3-ultra" under machines'),
        (
            ReplicaConfig(machine="n2-standard-32"),
            "--machine: serving on n2-standard-32 is not modelled",
        ),
        (ReplicaConfig(machine="g4-standard-6"), "--machine: g4-standard-6 has a fractional chip"),
    ],
)
def test_invalid_configuration_raises_input_error(named: ReplicaConfig, message: str) -> None:
    with pytest.raises(InputError) as caught:
        configure_replica(named, CATALOG.model("llama-3-8b"), LOAD, CATALOG)
    assert message in str(caught.value)
    assert caught.value.problems[0].fix


def test_configuration_larger_than_memory_is_infeasible() -> None:
    found = configure_replica(
        ReplicaConfig(machine="g2-standard-4"), CATALOG.model("llama-3-70b"), LOAD, CATALOG
    )
    assert isinstance(found, Infeasible)
    assert "Llama 3 70B in bf16 on 1 × NVIDIA L4 needs" in found.what
    assert "chips per replica" in found.fix

"""Single-pass plans: latency and rate are met, CPU-only where sufficient, infeasible otherwise."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.single_pass import SinglePassRate
from gpuyard.plan.option import Plan
from gpuyard.plan.single_pass import plan_single_pass
from gpuyard.plan.single_pass_batching import choose_batch
from gpuyard.workload.read import parse_workload
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()
PACE = SinglePassRate(
    flop_per_s=1e14, memory_bytes_per_s=1e12, call_s=1e-3, server_ratio=0.8, error_ratio=0.1, runs=1
)


def workload(
    model: str = "resnet-50",
    needs: str = "requests: 500/s, p99: 15ms",
    where: str = "",
    **more: str,
) -> Workload:
    traffic = more.get("traffic", "arrivals: poisson")
    text = f"task: inference\nmodel: {model}\ntraffic: {{{traffic}}}\nrequirements: {{{needs}}}\nwhere: {{{where}}}\n"
    return parse_workload(text, "test.yaml", CATALOG)


def plan(wanted: Workload) -> Plan:
    found = plan_single_pass(wanted, CATALOG)
    assert isinstance(found, Plan), str(found)
    return found


@pytest.mark.parametrize(
    ("model", "p99", "traffic"),
    [
        ("resnet-50", "15ms", "arrivals: poisson"),
        ("bert-large", "130ms", "input: 177"),
        ("dlrm-v2", "60ms", "arrivals: poisson"),
        ("vit-l-16", "100ms", "arrivals: poisson"),
        ("xgboost-500x8", "10ms", "arrivals: poisson"),
    ],
)
def test_every_kind_is_planned_within_p99(model: str, p99: str, traffic: str) -> None:
    found = plan(workload(model, f"requests: 500/s, p99: {p99}", traffic=traffic))
    limit = float(p99.removesuffix("ms")) / 1e3
    for option in found.options:
        service = option.service
        assert service is not None
        assert service.e2e.p99_s <= limit
        assert service.e2e.mean_s <= service.e2e.p99_s
        assert service.engine.command
        assert service.rate_error_ratio > 0.0
    assert any(option.cluster.chip is None for option in found.options), "processors suffice"


def test_trees_run_on_cpus_only() -> None:
    found = plan(workload("xgboost-500x8", "requests: 1000/s, p99: 10ms"))
    assert all(option.cluster.chip is None for option in found.options)
    assert found.options[0].service is not None
    assert found.options[0].service.engine.name == "triton-fil"


def test_machines_grow_with_load() -> None:
    where = "machines: [g2-standard-4]"
    few = plan(workload(needs="requests: 5000/s, p99: 15ms", where=where)).options[0]
    many = plan(workload(needs="requests: 50000/s, p99: 15ms", where=where)).options[0]
    assert few.cluster.machine_count == 1
    assert (
        4 <= many.cluster.machine_count <= 6
    )  # 12,800 images a second and L4 offline, 85 % of it in a server


def test_unreachable_p99_is_infeasible() -> None:
    found = plan_single_pass(
        workload(needs="requests: 10/s, p99: 100us", where="machines: [g2-standard-4]"), CATALOG
    )
    assert isinstance(found, Infeasible)
    assert found.binding == "requirements.p99"
    assert found.fix.startswith("raise p99 to ")
    raised = found.fix.removeprefix("raise p99 to ")
    plan(workload(needs=f"requests: 10/s, p99: {raised}", where="machines: [g2-standard-4]"))


def test_tables_larger_than_memory_are_infeasible() -> None:
    found = plan_single_pass(
        workload("dlrm-v2", "requests: 10/s", where="machines: [n1-1xt4]"), CATALOG
    )
    assert isinstance(found, Infeasible)
    assert found.binding == "memory"
    assert "the weights need 26.2GB" in found.what


def test_trace_of_single_pass_model_raises_input_error() -> None:
    wanted = workload("bert-large", "p99: 1s", traffic="trace: t.csv")
    with pytest.raises(InputError, match=r"traffic\.trace: BERT large generates no tokens"):
        plan_single_pass(wanted, CATALOG)


@pytest.mark.parametrize("limit_s", [0.004, 0.02, 0.2, None])
def test_batch_is_largest_within_p99(limit_s: float | None) -> None:
    found = choose_batch(PACE, 1e10, 0.0, limit_s, 2.0)
    assert found is not None
    if limit_s is not None:
        assert 2.0 * found.batch_s <= limit_s
        assert (
            2.0 * PACE.batch_s(1e10, 0.0, 2 * found.batch) > limit_s
            or found.batch / found.batch_s >= 0.9 * 1e4
        )
    assert found.rate_per_s == pytest.approx(0.8 * found.batch / found.batch_s)
    assert choose_batch(PACE, 1e10, 0.0, 0.001, 2.0) is None


def test_batch_follows_arrival_rate() -> None:
    found = choose_batch(PACE, 1e10, 0.0, None, 2.0)
    assert found is not None
    assert found.under(1.0, PACE, 1e10, 0.0) == 1.0
    batch = found.under(5000.0, PACE, 1e10, 0.0)
    assert batch == pytest.approx(5000.0 * PACE.batch_s(1e10, 0.0, batch), rel=1e-3)

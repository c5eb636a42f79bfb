"""Plans for models of one pass: latency and rate are kept, processors where they suffice, and what stands in the way."""

from __future__ import annotations

import pytest

from gpuyard.catalog import load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.samples import Pace
from gpuyard.plan.batches import batched
from gpuyard.plan.option import Plan
from gpuyard.plan.samples import plan_samples
from gpuyard.workload import Workload, parse_workload

CATALOG = load_catalog()
PACE = Pace(flop_per_s=1e14, memory_bytes_per_s=1e12, call_s=1e-3, server_ratio=0.8, error_ratio=0.1, runs=1)


def workload(
    model: str = "resnet-50", needs: str = "requests: 500/s, p99: 15ms", where: str = "", **more: str
) -> Workload:
    traffic = more.get("traffic", "arrivals: poisson")
    text = f"task: inference\nmodel: {model}\ntraffic: {{{traffic}}}\nrequirements: {{{needs}}}\nwhere: {{{where}}}\n"
    return parse_workload(text, "test.yaml", CATALOG)


def plan(wanted: Workload) -> Plan:
    found = plan_samples(wanted, CATALOG)
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
def test_every_kind_is_planned_within_its_latency(model: str, p99: str, traffic: str) -> None:
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


def test_trees_are_scored_on_processors_alone() -> None:
    found = plan(workload("xgboost-500x8", "requests: 1000/s, p99: 10ms"))
    assert all(option.cluster.chip is None for option in found.options)
    assert found.options[0].service is not None
    assert found.options[0].service.engine.name == "triton-fil"


def test_more_load_needs_more_machines() -> None:
    where = "machines: [g2-standard-4]"
    few = plan(workload(needs="requests: 5000/s, p99: 15ms", where=where)).options[0]
    many = plan(workload(needs="requests: 50000/s, p99: 15ms", where=where)).options[0]
    assert few.cluster.machine_count == 1
    assert 4 <= many.cluster.machine_count <= 6  # 12,800 images a second and L4 offline, 85 % of it in a server


def test_a_latency_that_no_chip_reaches() -> None:
    found = plan_samples(workload(needs="requests: 10/s, p99: 100us", where="machines: [g2-standard-4]"), CATALOG)
    assert isinstance(found, Infeasible)
    assert found.binding == "requirements.p99"
    assert found.fix.startswith("raise p99 to ")
    raised = found.fix.removeprefix("raise p99 to ")
    plan(workload(needs=f"requests: 10/s, p99: {raised}", where="machines: [g2-standard-4]"))


def test_tables_that_do_not_fit() -> None:
    found = plan_samples(workload("dlrm-v2", "requests: 10/s", where="machines: [n1-1xt4]"), CATALOG)
    assert isinstance(found, Infeasible)
    assert found.binding == "memory"
    assert "the weights need 26.2GB" in found.what


def test_a_trace_of_tokens_is_for_models_that_write_them() -> None:
    wanted = workload("bert-large", "p99: 1s", traffic="trace: t.csv")
    with pytest.raises(InputError, match=r"traffic\.trace: BERT large writes no tokens"):
        plan_samples(wanted, CATALOG)


@pytest.mark.parametrize("limit_s", [0.004, 0.02, 0.2, None])
def test_the_batch_is_the_largest_in_time(limit_s: float | None) -> None:
    found = batched(PACE, 1e10, 0.0, limit_s, 2.0)
    assert found is not None
    if limit_s is not None:
        assert 2.0 * found.batch_s <= limit_s
        assert 2.0 * PACE.batch_s(1e10, 0.0, 2 * found.batch) > limit_s or found.batch / found.batch_s >= 0.9 * 1e4
    assert found.rate_per_s == pytest.approx(0.8 * found.batch / found.batch_s)
    assert batched(PACE, 1e10, 0.0, 0.001, 2.0) is None


def test_a_batch_forms_by_itself() -> None:
    found = batched(PACE, 1e10, 0.0, None, 2.0)
    assert found is not None
    assert found.under(1.0, PACE, 1e10, 0.0) == 1.0
    batch = found.under(5000.0, PACE, 1e10, 0.0)
    assert batch == pytest.approx(5000.0 * PACE.batch_s(1e10, 0.0, batch), rel=1e-3)

"""Machines of several clouds in one plan: prices, regions, platforms and preemptions of each."""

from __future__ import annotations

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import Workspace, workspace_of
from gpuyard.catalog.load import load_catalog
from gpuyard.document.frozen_json import Plain
from gpuyard.document.read import read_plain
from gpuyard.errors import InputError
from gpuyard.plan.interruptions import interruption_risk
from gpuyard.plan.option import Plan
from gpuyard.plan.platforms import suitability
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()
SERVICE: dict[str, Plain] = {
    "task": "inference",
    "model": "llama-3.1-8b",
    "traffic": {"input": "1000", "output": "200"},
    "requirements": {"requests": "5/s", "ttft": "500ms", "tpot": "50ms"},
}


def workspace_from(tree: dict[str, Plain]) -> Workspace:
    return workspace_of(read_plain(tree, "workload"))


def planned(where: dict[str, Plain]) -> Plan:
    plan = plan_workload(workspace_from({**SERVICE, "where": where}))
    assert isinstance(plan, Plan)
    return plan


def workload(where: dict[str, Plain]) -> Workload:
    return workspace_from({**SERVICE, "where": where}).workload


def provider(machine: str) -> str:
    return CATALOG.machine(machine).provider


def test_any_provider_ranks_machines_of_several_clouds_in_one_table() -> None:
    plan = planned({"provider": "any"})
    providers = {provider(option.cluster.machine) for option in plan.options}
    assert len(providers) >= 4
    assert "onprem" not in providers
    for option in plan.options:
        if option.bill is not None:
            assert option.bill.price.startswith(provider(option.cluster.machine))


def test_region_of_a_provider_limits_its_machines() -> None:
    plan = planned({"provider": "aws", "region": "eu-north-1"})
    assert {provider(option.cluster.machine) for option in plan.options} == {"aws"}
    assert {option.bill.region for option in plan.options if option.bill} == {"eu-north-1"}


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"provider": "aws", "region": "eu-north-9"}, '"eu-north-9" is not a region of aws'),
        ({"provider": "aws", "zone": "us-east-1a"}, "zone"),
        ({"provider": "any", "region": "us-central1"}, "region is for one cloud"),
        ({"provider": "azure", "machines": ["p5.48xlarge"]}, "use provider: aws"),
    ],
)
def test_place_of_another_provider_is_an_error(where: dict[str, Plain], text: str) -> None:
    with pytest.raises(InputError, match=text):
        workload(where)


def test_platforms_name_what_the_provider_runs() -> None:
    wanted = workload({"provider": "any"})
    on_aws = suitability(wanted, CATALOG.machine("p5.48xlarge"), 2, CATALOG)
    on_runpod = suitability(wanted, CATALOG.machine("8x_H100-SXM_SECURE"), 1, CATALOG)
    assert [item.suits for item in on_aws] == [True, True]
    assert "Amazon EKS" in next(item.why for item in on_aws if item.platform == "kubernetes")
    assert {item.platform: item.suits for item in on_runpod} == {
        "slurm": True,
        "kubernetes": False,
    }


def test_spot_of_a_provider_without_a_record_has_the_highest_rate() -> None:
    rates = {
        name: interruption_risk(CATALOG.machine(name), 1, "spot", CATALOG).mean_time_between_s
        for name in ("a3-highgpu-8g", "p5.48xlarge", "gpu-h100-sxm_8gpu-128vcpu-1600gb")
    }
    google, aws, nebius = rates.values()
    assert nebius == pytest.approx(aws)
    assert nebius < google


def test_reservation_of_another_cloud_has_no_discount_of_google() -> None:
    plan = planned({"provider": "coreweave", "consumption": ["reservation"]})
    bill = plan.options[0].bill
    assert bill is not None
    assert "negotiated" in bill.note
    assert "53 %" not in bill.note


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["lambda", "oci", "runpod", "nebius"])
def test_training_is_planned_where_no_source_states_the_network(name: str) -> None:
    tree: dict[str, Plain] = {
        "task": "finetuning",
        "model": "llama-3.1-8b",
        "data": {"tokens": "20M", "sequence": "2048"},
        "training": {"method": "full", "global_batch": "32"},
        "where": {"provider": name},
    }
    plan = plan_workload(workspace_from(tree))
    assert isinstance(plan, Plan)
    for option in plan.options:
        assert (
            option.cluster.machine_count == 1
            or CATALOG.machine(option.cluster.machine).network.fabric_bits_per_s
        )

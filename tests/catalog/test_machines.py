"""Machine rows: every published type, consistent totals, documented consumption options."""

from __future__ import annotations

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.machines import Machine

CATALOG = load_catalog()
GOOGLE = [machine for machine in CATALOG.machines if machine.provider == "google"]
ONPREM = [machine for machine in CATALOG.machines if machine.provider == "onprem"]

# Every Google Cloud type, with the accelerator memory that Google prints for the whole machine (GB; TPU v5p, v6e and
# 7x: GiB), None without accelerators.
PRINTED_MEMORY: dict[str, int | None] = {
    "a4x-maxgpu-4g-metal": 1116, "a4x-highgpu-4g": 744, "a4-highgpu-8g": 1440, "a3-ultragpu-8g": 1128,
    "a3-megagpu-8g": 640, "a3-highgpu-1g": 80, "a3-highgpu-2g": 160, "a3-highgpu-4g": 320, "a3-highgpu-8g": 640,
    "a3-edgegpu-8g": 640,
    "a2-ultragpu-1g": 80, "a2-ultragpu-2g": 160, "a2-ultragpu-4g": 320, "a2-ultragpu-8g": 640,
    "a2-highgpu-1g": 40, "a2-highgpu-2g": 80, "a2-highgpu-4g": 160, "a2-highgpu-8g": 320, "a2-megagpu-16g": 640,
    "g4-standard-6": 12, "g4-standard-12": 24, "g4-standard-24": 48, "g4-standard-48": 96, "g4-standard-96": 192,
    "g4-standard-192": 384, "g4-standard-384": 768,
    "g2-standard-4": 24, "g2-standard-8": 24, "g2-standard-12": 24, "g2-standard-16": 24, "g2-standard-24": 48,
    "g2-standard-32": 24, "g2-standard-48": 96, "g2-standard-96": 192,
    "n1-1xt4": 16, "n1-2xt4": 32, "n1-4xt4": 64, "n1-1xv100": 16, "n1-2xv100": 32, "n1-4xv100": 64, "n1-8xv100": 128,
    "n1-1xp100": 16, "n1-2xp100": 32, "n1-4xp100": 64, "n1-1xp4": 8, "n1-2xp4": 16, "n1-4xp4": 32,
    "ct5lp-hightpu-1t": 16, "ct5lp-hightpu-4t": 64, "ct5lp-hightpu-8t": 128, "ct5p-hightpu-4t": 380,
    "ct6e-standard-1t": 32, "ct6e-standard-4t": 128, "ct6e-standard-8t": 256, "tpu7x-standard-4t": 768,
    "c3-standard-176": None, "c3-standard-44": None, "n2-standard-128": None, "n2-standard-32": None,
    "h3-standard-88": None, "h4d-standard-192": None,
}  # fmt: skip
BINARY_GIGABYTES = ("ct5p-", "ct6e-", "tpu7x-")
NOT_IN_CATALOG = {
    "",
    "AMD EPYC 7742",
    "AMD EPYC 9374F",
    "AMD EPYC 9575F",
    "Intel Xeon 6776P",
}  # processors named as their vendors do
ONE_VCPU_A_CORE = {"A4X Max", "A4X", "H3", "H4D"}


RENTED = [machine for machine in CATALOG.machines if machine.provider not in ("google", "onprem")]


def by_name(machine: Machine) -> str:
    return machine.name


def test_catalog_has_every_published_machine_type() -> None:
    assert len(PRINTED_MEMORY) == 61
    assert {machine.name for machine in GOOGLE} == set(PRINTED_MEMORY)


def test_catalog_has_onprem_servers() -> None:
    wanted = {
        "dgx-a100",
        "dgx-h100",
        "dgx-h200",
        "dgx-b200",
        "hgx-h100",
        "hgx-b200",
        "mi300x-8x",
        "gb200-nvl72",
    }
    assert wanted <= {machine.name for machine in ONPREM}


@pytest.mark.parametrize("machine", CATALOG.machines, ids=by_name)
def test_chips_and_cpus_of_machines_exist(machine: Machine) -> None:
    chips = {chip.name: chip for chip in CATALOG.chips}
    assert (machine.chip is None) == (machine.chip_count == 0)
    assert machine.is_accelerated == (machine.chip is not None)
    if machine.chip:
        assert chips[machine.chip].kind in ("gpu", "tpu", "npu")
    if machine.cpu not in NOT_IN_CATALOG:
        assert chips[machine.cpu].kind == "cpu"


@pytest.mark.parametrize("machine", GOOGLE, ids=by_name)
def test_chip_memory_adds_up_to_published_total(machine: Machine) -> None:
    printed = PRINTED_MEMORY[machine.name]
    if machine.chip is None:
        assert printed is None
        return
    assert printed is not None
    unit = 2**30 if machine.name.startswith(BINARY_GIGABYTES) else 1e9
    assert machine.chip_count * CATALOG.chip(machine.chip).memory_bytes == printed * unit


@pytest.mark.parametrize("machine", CATALOG.machines, ids=by_name)
def test_fabric_and_host_bandwidth_add_up(machine: Machine) -> None:
    network = machine.network
    if network.max_bits_per_s and network.fabric_bits_per_s and network.host_bits_per_s:
        assert network.fabric_bits_per_s + network.host_bits_per_s == network.max_bits_per_s
    if network.technology in ("ethernet", "ici"):
        assert network.fabric_bits_per_s is None
        assert network.host_bits_per_s == network.max_bits_per_s
    if machine.provider == "onprem":
        assert network.fabric_bits_per_s
        assert network.fabric_bits_per_s / machine.chip_count in (200e9, 400e9, 800e9)


@pytest.mark.parametrize(
    ("name", "fabric_gbps", "host_gbps", "technology", "mtu"),
    [
        ("a4x-maxgpu-4g-metal", 3200, 400, "roce", 8896),
        ("a4x-highgpu-4g", 1600, 400, "roce", 8896),
        ("a4-highgpu-8g", 3200, 400, "roce", 8896),
        ("a3-ultragpu-8g", 3200, 400, "roce", 8896),
        ("a3-megagpu-8g", 1600, 200, "tcpxo", 8244),
        ("a3-highgpu-8g", 800, 200, "tcpx", 8244),
    ],
)
def test_fabric_bandwidth_excludes_host_network(
    name: str, fabric_gbps: float, host_gbps: float, technology: str, mtu: int
) -> None:
    network = CATALOG.machine(name).network
    assert network.fabric_bits_per_s == fabric_gbps * 1e9
    assert network.host_bits_per_s == host_gbps * 1e9
    assert network.technology == technology
    assert network.mtu_bytes == mtu
    assert "VPC" in network.vpc_layout


@pytest.mark.parametrize("machine", CATALOG.machines, ids=by_name)
def test_scale_up_domain_contains_machine(machine: Machine) -> None:
    if machine.scale_up_domain_count and machine.chip:
        assert machine.scale_up_domain_count >= machine.chip_count
        scale_up = CATALOG.chip(machine.chip).scale_up
        assert scale_up
        assert scale_up.domain_count
        assert machine.scale_up_domain_count <= scale_up.domain_count


@pytest.mark.parametrize("machine", GOOGLE, ids=by_name)
def test_cores_are_half_of_vcpus(machine: Machine) -> None:
    assert machine.vcpu_count
    assert machine.core_count == machine.vcpu_count // (
        1 if machine.series in ONE_VCPU_A_CORE else 2
    )


@pytest.mark.parametrize("machine", CATALOG.machines, ids=by_name)
def test_attached_local_ssd_has_size(machine: Machine) -> None:
    if machine.local_ssd_mode == "attached":
        assert machine.local_ssd_bytes
    if machine.local_ssd_mode in (None, "none"):
        assert machine.local_ssd_bytes is None


@pytest.mark.parametrize("name", ["a4x-maxgpu-4g-metal", "a4x-highgpu-4g"])
def test_a4x_is_available_by_future_reservation_only(name: str) -> None:
    offers = CATALOG.machine(name).consumption
    assert offers.future_reservation == "yes"
    assert {offers.on_demand, offers.spot, offers.flex_start, offers.on_demand_reservation} == {
        "no"
    }
    assert offers.calendar_reservation == "no"


@pytest.mark.parametrize("name", ["a4-highgpu-8g", "a3-ultragpu-8g"])
def test_a4_and_a3_ultra_are_not_available_on_demand(name: str) -> None:
    offers = CATALOG.machine(name).consumption
    assert offers.on_demand == "no"
    assert {
        offers.spot,
        offers.flex_start,
        offers.calendar_reservation,
        offers.future_reservation,
    } == {"yes"}


@pytest.mark.parametrize("name", ["a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"])
def test_small_a3_high_is_available_as_spot_or_flex_start_only(name: str) -> None:
    offers = CATALOG.machine(name).consumption
    assert {offers.spot, offers.flex_start} == {"yes"}
    assert {offers.on_demand, offers.on_demand_reservation, offers.calendar_reservation} == {"no"}
    assert offers.future_reservation == "no"


@pytest.mark.parametrize(
    "machine", [m for m in GOOGLE if m.chip and not m.series.startswith("TPU")], ids=by_name
)
def test_consumption_options_follow_documentation(machine: Machine) -> None:
    offers = machine.consumption
    nvl72 = machine.series.startswith("A4X")
    shut_down = machine.chip == "p100"
    assert offers.spot == offers.flex_start == ("no" if nvl72 or shut_down else "yes")
    calendar = machine.name in ("a4-highgpu-8g", "a3-ultragpu-8g", "a3-megagpu-8g", "a3-highgpu-8g")
    assert offers.calendar_reservation == ("yes" if calendar else "no")
    assert offers.future_reservation == ("yes" if calendar or nvl72 else "no")


def test_listed_price_is_not_an_offer() -> None:
    assert CATALOG.machine("a2-highgpu-8g").consumption.on_demand == "price-only"
    assert CATALOG.machine("c3-standard-44").consumption.spot is None
    assert CATALOG.machine("tpu7x-standard-4t").consumption.spot is None


@pytest.mark.parametrize("machine", GOOGLE, ids=by_name)
def test_cloud_run_offers_one_l4_or_rtx_pro(machine: Machine) -> None:
    offered = machine.chip in ("l4", "rtx-pro-6000") and machine.chip_count == 1
    assert (machine.platforms.cloud_run == "yes") == offered


@pytest.mark.parametrize("machine", GOOGLE, ids=by_name)
def test_platform_support_follows_documentation(machine: Machine) -> None:
    platforms = machine.platforms
    answer = "no" if machine.chip == "p100" else "yes"  # shut down
    assert platforms.compute_engine == answer
    if machine.chip:
        assert platforms.gke_standard == answer
        fractional = machine.chip_count < 1
        old = machine.chip in ("v100", "p100", "p4")
        assert (platforms.gke_autopilot == "no") == (fractional or old)
    director = machine.series in ("A4X Max", "A4X", "A4", "A3 Ultra", "A3 Mega")
    assert (platforms.cluster_director == "yes") == director


def test_machine_power_covers_chips() -> None:
    for machine in ONPREM:
        assert machine.chip
        chip_w = CATALOG.chip(machine.chip).power_w
        if machine.power_w and chip_w:
            assert machine.chip_count * chip_w < machine.power_w < 2.5 * machine.chip_count * chip_w


def test_every_rented_machine_has_a_provider_row_and_no_google_consumption() -> None:
    providers = {row.name for row in CATALOG.providers}
    for machine in RENTED:
        assert machine.provider in providers, machine.name
        assert machine.consumption.flex_start == "no", machine.name


def test_machines_without_a_known_network_are_planned_alone() -> None:
    for machine in RENTED:
        network = machine.network
        known = network.fabric_bits_per_s or network.host_bits_per_s
        assert machine.multi_host == bool(known), machine.name

"""Chip rows: dense peaks, measurements below them, and CPUs consistent with machines."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gpuyard.catalog.chips import Chip, Rates
from gpuyard.catalog.load import load_catalog

CATALOG = load_catalog()
ACCELERATORS = [chip for chip in CATALOG.chips if chip.kind != "cpu"]
CPUS = [chip for chip in CATALOG.chips if chip.kind == "cpu"]
TYPES = [field.name for field in fields(Rates)]
# They accept FP8 and multiply in BF16.
FP8_AT_BF16_RATE = {"tpu-v5p", "tpu-v6e", "trainium1", "inferentia2"}

# The vendors' dense BF16 peaks (FP16 where a chip has no BF16), in TFLOPS.
DENSE_16_BIT = {
    "b200": 2250, "gb200": 2500, "b300": 2250, "gb300": 2500, "rtx-pro-6000": 467.8, "h200-sxm": 989, "h100-sxm": 989,
    "a100-80gb": 312, "a100-40gb": 312, "l4": 121, "l40s": 362, "t4": 65, "v100": 125, "p100": 18.7,
    "mi300x": 1307.4, "mi325x": 1307.4, "mi350x": 2306.9, "mi355x": 2516.6,
    "tpu-v4": 275, "tpu-v5e": 197, "tpu-v5p": 459, "tpu-v6e": 918, "tpu-7x": 2307,
}  # fmt: skip
# What Google's GPU page prints for FP16 under the word dense; for these it is the rate with sparsity.
PRINTED_SPARSE_FP16 = {
    "b200": 4500, "gb200": 5000, "gb300": 5000, "h200-sxm": 1979, "h100-sxm": 1979, "l4": 242, "rtx-pro-6000": 935.6,
}  # fmt: skip
# Of chips that other providers rent.
OTHER_DENSE_16_BIT = {
    "gh200": 989, "rubin": 4000, "rtx-pro-4500": 219.7, "trainium1": 190, "trainium2": 667, "inferentia2": 190,
}  # fmt: skip
PAIRS = [(chip.name, alias) for chip in CATALOG.chips for alias in chip.aliases]


def by_name(chip: Chip) -> str:
    return chip.name


def rates(chip: Chip, kind: str = "dense") -> dict[str, float]:
    """The known rates of a chip."""
    table = getattr(chip, kind)
    return {name: value for name in TYPES if table and (value := getattr(table, name)) is not None}


def test_catalog_has_common_chips() -> None:
    assert {*DENSE_16_BIT, *OTHER_DENSE_16_BIT, "p4"} == {chip.name for chip in ACCELERATORS}


@pytest.mark.parametrize("name", DENSE_16_BIT | OTHER_DENSE_16_BIT)
def test_16_bit_peak_is_dense_vendor_peak(name: str) -> None:
    dense = CATALOG.chip(name).dense
    peak = dense.bf16_flop_per_s or dense.fp16_flop_per_s
    assert peak == pytest.approx((DENSE_16_BIT | OTHER_DENSE_16_BIT)[name] * 1e12)


def test_h100_peak_is_dense() -> None:
    dense = CATALOG.chip("H100").dense
    assert dense.bf16_flop_per_s == 989e12
    assert dense.fp8_flop_per_s == 1979e12
    assert CATALOG.chip("l4").dense.bf16_flop_per_s == 121e12


@pytest.mark.parametrize("name", PRINTED_SPARSE_FP16)
def test_sparse_rate_is_halved(name: str) -> None:
    assert CATALOG.chip(name).dense.fp16_flop_per_s == pytest.approx(
        PRINTED_SPARSE_FP16[name] * 1e12 / 2, rel=2e-3
    )


@pytest.mark.parametrize("chip", ACCELERATORS, ids=by_name)
def test_halving_bits_doubles_rate(chip: Chip) -> None:
    dense = chip.dense
    if dense.bf16_flop_per_s and dense.fp8_flop_per_s and chip.name != "rubin":
        times = 1 if chip.name in FP8_AT_BF16_RATE else 2
        assert dense.fp8_flop_per_s == pytest.approx(times * dense.bf16_flop_per_s, rel=0.03)
    if dense.bf16_flop_per_s and dense.fp16_flop_per_s:
        assert dense.fp16_flop_per_s == dense.bf16_flop_per_s
    if dense.tf32_flop_per_s and dense.bf16_flop_per_s:
        times = 1 if chip.kind == "npu" else 2
        assert dense.bf16_flop_per_s == pytest.approx(times * dense.tf32_flop_per_s, rel=0.02)
    if dense.fp4_flop_per_s and dense.fp8_flop_per_s:
        assert (
            2 <= dense.fp4_flop_per_s / dense.fp8_flop_per_s <= 3.12
        )  # Blackwell Ultra triples it


@pytest.mark.parametrize("chip", CATALOG.chips, ids=by_name)
def test_measured_rate_is_below_peak(chip: Chip) -> None:
    peaks = rates(chip)
    for name, measured in rates(chip, "best_measured").items():
        assert measured > 0
        assert name not in peaks or 0.4 * peaks[name] < measured < peaks[name]


@pytest.mark.parametrize("chip", CATALOG.chips, ids=by_name)
def test_chip_sizes_are_plausible(chip: Chip) -> None:
    assert 8e9 <= chip.memory_bytes <= 2.1e12
    assert 1e11 <= chip.memory_bytes_per_s <= 2.5e13
    assert rates(chip) or rates(chip, "best_measured")
    if chip.scale_up:
        assert chip.scale_up.bytes_per_s < chip.memory_bytes_per_s


@pytest.mark.parametrize(
    ("name", "both_directions_gb"),
    [
        ("b200", 1800),
        ("gb200", 1800),
        ("gb300", 1800),
        ("h100-sxm", 900),
        ("h200-sxm", 900),
        ("a100-80gb", 600),
        ("v100", 300),
        ("mi300x", 896),
        ("tpu-v5e", 400),
        ("tpu-v5p", 1200),
        ("tpu-v6e", 800),
        ("tpu-7x", 1200),
    ],
)
def test_scale_up_bandwidth_is_one_direction(name: str, both_directions_gb: float) -> None:
    scale_up = CATALOG.chip(name).scale_up
    assert scale_up
    assert scale_up.bytes_per_s == both_directions_gb * 1e9 / 2


def test_frameworks_follow_vendor() -> None:
    for chip in CATALOG.chips:
        names = set(chip.frameworks)
        assert "jax-xla" in names or chip.name == "rubin"
        assert ("cuda" in names) == (chip.kind == "gpu" and chip.vendor == "NVIDIA")
        assert ("rocm" in names) == (chip.vendor == "AMD" and chip.kind == "gpu")
        assert ("pytorch-xla" in names) == (chip.kind in ("tpu", "npu"))
        assert ("pytorch" in names) == (chip.kind not in ("tpu", "npu"))


def test_hbm_in_gib_is_preserved() -> None:
    assert CATALOG.chip("v5p").memory_bytes == 95 * 2**30
    assert CATALOG.chip("Ironwood").memory_bytes == 192 * 2**30
    assert CATALOG.chip("h100-sxm").memory_bytes == 80e9


def test_chip_names_are_unique() -> None:
    spellings = [name.casefold() for chip in CATALOG.chips for name in (chip.name, *chip.aliases)]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize(("name", "alias"), PAIRS)
def test_chip_resolves_by_alias(name: str, alias: str) -> None:
    assert CATALOG.chip(alias.upper()).name == name


@pytest.mark.parametrize("chip", CPUS, ids=by_name)
def test_cpu_row_is_one_socket_of_largest_machine(chip: Chip) -> None:
    assert chip.core_count
    hosts = [
        machine for machine in CATALOG.machines if machine.cpu == chip.name and machine.core_count
    ]
    largest = max(hosts, key=lambda machine: machine.memory_bytes)
    assert largest.core_count
    sockets = round(largest.core_count / chip.core_count)
    assert sockets >= 2
    assert chip.memory_bytes * sockets == pytest.approx(largest.memory_bytes)


@pytest.mark.parametrize(
    ("name", "clock_hz", "fp64_per_cycle", "bf16_per_cycle"),
    [
        ("xeon-skylake", 2.7e9, 32, None),
        ("xeon-cascade-lake", 2.9e9, 32, None),
        ("xeon-ice-lake", 3.4e9, 32, None),
        ("xeon-sapphire-rapids", 3.0e9, 32, 1024),
        ("xeon-emerald-rapids", 2.9e9, 32, 1024),
    ],
)
def test_cpu_peak_is_cores_times_clock_times_flops(
    name: str, clock_hz: float, fp64_per_cycle: int, bf16_per_cycle: int | None
) -> None:
    chip = CATALOG.chip(name)
    assert chip.core_count
    cycles = chip.core_count * clock_hz
    assert chip.dense.fp64_flop_per_s == pytest.approx(cycles * fp64_per_cycle, rel=1e-3)
    assert chip.dense.fp32_flop_per_s == pytest.approx(cycles * 2 * fp64_per_cycle, rel=1e-3)
    assert chip.dense.bf16_flop_per_s == (
        bf16_per_cycle and pytest.approx(cycles * bf16_per_cycle, rel=1e-3)
    )


def test_unknown_number_is_none() -> None:
    assert CATALOG.chip("t4").dense.bf16_flop_per_s is None
    assert CATALOG.chip("a100").dense.fp8_flop_per_s is None
    assert CATALOG.chip("epyc-turin").dense == Rates()
    assert all(chip.power_w is None for chip in CATALOG.chips if chip.kind == "tpu")

"""The recipe "Add a chip" of CONTRIBUTING.md: one table and its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .checkout import Checkout

CHIP = """
[chips.toy]
label = "Toy accelerator"
vendor = "NVIDIA"
architecture = "Blocks"
kind = "gpu"
memory_bytes = "100GB"
memory_bytes_per_s = "4000GB/s"
memory_type = "HBM3"
frameworks = ["cuda", "pytorch"]
source = ["toy-datasheet"]
dense.bf16_flop_per_s = "1000TFLOPS"
scale_up = { technology = "Toylink", bytes_per_s = "450GB/s", topology = "switch", domain_count = 8 }
"""
SOURCE = """
[sources.toy-datasheet]
title = "Toy accelerator: data sheet"
url = "https://example.com/toy"
date = 2026-04-01
"""
SILICON = """
[silicon.toy]
chip = "toy"
match = "^Toy"
generation = "hopper"
sm_count = 132
ratio = "H100"
calibrated = false
"""
# A machine with the chip, in a user's own catalog.
MACHINE = """
[machines.toy-8x]
series = "Toy"
provider = "onprem"
chip = "toy"
chip_count = 8
scale_up_domain_count = 8
core_count = 112
memory_bytes = "2TB"
source = ["toy-datasheet"]
network = { technology = "ethernet", fabric_bits_per_s = "3200Gbps", nic_count = 8, rail_count = 8 }
"""
WORKLOAD = """
task: pretraining
name: toy
model: llama-3-8b
data: {tokens: 10B, sequence: 8192}
training: {global_batch: 128}
where: {provider: onprem, inventory: {toy-8x: 4}}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    copy = Checkout(tmp_path, "Add a chip")
    copy.append("src/gpuyard/catalog/data/chips.toml", CHIP)
    copy.append("src/gpuyard/catalog/data/sources.toml", SOURCE)
    copy.append("src/gpuyard/perf/data/chip_kernels.toml", SILICON)
    return copy


@pytest.mark.slow
def test_new_chip_is_listed_and_planned(checkout: Checkout) -> None:
    rows = json.loads(checkout.run("-m", "gpuyard", "catalog", "chips", "--json"))
    assert "toy" in {row["name"] for row in rows}
    for name, text in (("machine.toml", MACHINE), ("workload.yaml", WORKLOAD)):
        (checkout.root / name).write_text(text, encoding="utf-8")
    words = ("-m", "gpuyard", "plan", "workload.yaml", "--catalog", "machine.toml", "--json")
    best = json.loads(checkout.run(*words))["options"][0]
    assert best["cluster"]["machine"] == "toy-8x"
    assert best["step_s"] > 0

"""Networks that contradict the models."""

from __future__ import annotations

import pytest

from gpuyard.perf.published_network import network_contradiction


@pytest.mark.parametrize(
    "text",
    [
        "TCP, no InfiniBand",
        "8x200G Ethernet, TCP/IP",
        "400G Ethernet without RDMA",
        "NCCL_IB_DISABLE=1",
        "sockets over 100G",
        "8x H100 PCIe only",
    ],
)
def test_stated_network_without_a_model_is_a_contradiction(text: str) -> None:
    assert network_contradiction(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "InfiniBand NDR 8x400 Gb/s",
        "RoCE 8x400 Gb/s",
        "GPUDirect-TCPX 0.8-1.0 Tb/s/node",
        "GPUDirect-TCPXO 1.8 Tb/s/node",
        "EFA 4x100 Gb/s",
        "NVLink/NVSwitch (NVLS) single node",
    ],
)
def test_networks_of_the_models_are_no_contradiction(text: str) -> None:
    assert network_contradiction(text) == ""

"""Networks that a published run states and the performance models do not have."""

from __future__ import annotations

import re

# The models have RDMA (InfiniBand, RoCE, EFA), GPUDirect-TCPX and TCPXO, and NVLink.
PLAIN_TCP = re.compile(
    r"\bTCP(/IP)?\b|\bsockets?\b|NCCL_IB_DISABLE=1"
    r"|\b(no|not|without|non-) ?(RDMA|RoCE|IB\b|InfiniBand)",
    re.IGNORECASE,
)
NO_NVLINK = re.compile(r"\b(no|without|non-) ?NV(Link|Switch)|PCIe only", re.IGNORECASE)


def network_contradiction(text: str) -> str:
    """Return what a text says about the network that contradicts the models; empty if nothing."""
    if match := PLAIN_TCP.search(text):
        return f'"{match[0]}": the network models are RDMA and GPUDirect-TCPX'
    if match := NO_NVLINK.search(text):
        return f'"{match[0]}": the chip\'s scale-up link is predicted'
    return ""

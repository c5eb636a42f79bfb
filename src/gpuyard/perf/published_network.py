"""Networks of published runs that the performance models do not support."""

from __future__ import annotations

import re

# Supported: RDMA (InfiniBand, RoCE, EFA), GPUDirect-TCPX and TCPXO, NVLink.
PLAIN_TCP = re.compile(
    r"\bTCP(/IP)?\b|\bsockets?\b|NCCL_IB_DISABLE=1"
    r"|\b(no|not|without|non-) ?(RDMA|RoCE|IB\b|InfiniBand)",
    re.IGNORECASE,
)
NO_NVLINK = re.compile(r"\b(no|without|non-) ?NV(Link|Switch)|PCIe only", re.IGNORECASE)


def network_contradiction(text: str) -> str:
    """Return the unsupported network that a text names; empty for none."""
    if match := PLAIN_TCP.search(text):
        return f'"{match[0]}": the network models are RDMA and GPUDirect-TCPX'
    if match := NO_NVLINK.search(text):
        return f'"{match[0]}": the chip\'s scale-up link is predicted'
    return ""

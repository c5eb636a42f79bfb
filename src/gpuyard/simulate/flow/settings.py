"""Settings of the flow engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Balance = Literal["ecmp", "spray", "adaptive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """Load balancing, packet overheads, and what may be left inexact for speed."""

    balance: Balance = (
        "ecmp"  # one path by hash; evenly over all; over all in proportion to what each carries
    )
    seed: int = 1  # of the switches' hashes
    polarised: bool = False  # all switches hash alike
    mtu_bytes: int = 4096  # of payload
    header_bytes: int = 64
    store_and_forward: bool = True
    quantum_ratio: float = (
        0.0  # completions within this share of the elapsed time are taken together
    )
    collapse: bool = True  # flows that symmetry makes equal are simulated once

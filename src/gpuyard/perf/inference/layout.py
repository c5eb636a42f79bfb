"""Parallelism layout of one serving replica: TP, PP, EP, attention DP."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLayout:
    """Layout of one replica: TP and attention DP for attention, PP for layers, EP for experts.

    Experts are spread over ep of the tp × attention_dp chips and tensor-parallel over the rest.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1

    @property
    def chips(self) -> int:
        return self.tp * self.pp * self.attention_dp

    @property
    def expert_tp(self) -> float:
        """Expert tensor-parallel size."""
        return self.tp * self.attention_dp / self.ep

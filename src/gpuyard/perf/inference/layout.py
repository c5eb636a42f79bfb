"""How one replica is spread over its chips."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReplicaLayout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLayout:
    """One replica: attention is split over tp chips, repeated attention_dp times, and layers over pp stages.

    Experts are spread over ep of the tp x attention_dp chips, and each expert is split over the rest.
    """

    tp: int = 1
    pp: int = 1
    ep: int = 1
    attention_dp: int = 1

    @property
    def chips(self) -> int:
        """Chips of the replica."""
        return self.tp * self.pp * self.attention_dp

    @property
    def expert_tp(self) -> float:
        """Chips that share one expert."""
        return self.tp * self.attention_dp / self.ep

"""The checkpoint that an engine loads for a planned weight format, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.catalog.checkpoints import Checkpoint
from gpuyard.catalog.models import Model
from gpuyard.perf.inference.layout import ReplicaLayout

BLOCK = 128  # weights per scale of fp8-block, on both sides (DeepSeek-V3, arXiv 2412.19437)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCheckpoint:
    """What an engine loads, and whether it quantises it while loading."""

    repository: str
    online: bool = False  # 16-bit weights, quantised by the engine while they load
    listed: Checkpoint | None = None

    @property
    def gated(self) -> bool:
        """Return True if its files need an accepted licence and an access token."""
        return self.listed is not None and self.listed.gated

    def minimum_chips(self, engine: str, chip: str | None) -> int:
        """Return the fewest chips per replica that the vendor states; 1 without a statement."""
        rows = self.listed.minimum_chips if self.listed is not None else ()
        return max(
            (row.count for row in rows if row.engine == engine and chip in row.chips), default=1
        )


def checkpoint_for(
    model: Model,
    weights: str,
    engine: str,
    online: Sequence[str],
    checkpoints: Sequence[Checkpoint],
) -> LoadedCheckpoint | None:
    """Return what an engine loads for the format, or None if there is nothing to load.

    Args:
        online: formats that the engine makes of 16-bit weights while it loads them.
    """
    own = [row for row in checkpoints if row.model == model.name]
    for row in own:
        if row.format == weights and (not row.engines or engine in row.engines):
            return LoadedCheckpoint(repository=row.name, listed=row)
    plain = next((row for row in own if row.format == "bf16"), None)
    if weights == "bf16" or weights in online:
        return LoadedCheckpoint(
            repository=plain.name if plain is not None else _hub_name(model),
            online=weights != "bf16",
            listed=plain,
        )
    return None


def _hub_name(model: Model) -> str:
    """The name that engines load: on a model hub if there is one."""
    return next((alias for alias in model.aliases if "/" in alias), model.name)


def splits_blocks(model: Model, weights: str, layout: ReplicaLayout) -> bool:
    """Return True if a layout cuts the 128 × 128 blocks of fp8-block weights.

    No engine loads that. Experts that stay whole (expert parallelism) are not cut.
    """
    shape = model.transformer
    if weights != "fp8-block" or shape is None:
        return False
    if shape.moe is None:
        return bool((shape.ffn // layout.tp) % BLOCK)
    return layout.ep == 1 and bool((shape.moe.expert_ffn // layout.tp) % BLOCK)

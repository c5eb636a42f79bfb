"""What is known of a `model_type`: kind, defaults of keys, and facts that no config states.

`model_types.json` is generated from the transformers library (tools/model_types.py). Types whose
code is on the Hub, not in the library, are listed here by the type that they equal.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuyard.catalog.models import ModelKind, QueryNorms

TABLE = Path(__file__).parent / "model_types.json"

# Same architecture and key names (modeling files of the repositories on the Hub).
EQUAL = {
    "RefinedWeb": "falcon", "RefinedWebModel": "falcon", "Yi": "llama", "aquila": "llama",
    "aquila3": "llama", "baichuan": "llama", "chatglm": "chatglm", "deepseek": "deepseek",
    "deepseek_vl_v2": "deepseek_v2", "exaone": "llama", "hunyuan": "hunyuan_v1_moe",
    "internlm": "llama", "internlm2": "llama", "internlm3": "llama", "kimi_k2": "deepseek_v3",
    "kimi_vl": "deepseek_v3", "minicpm": "llama", "minimax_m1": "minimax",
    "minimax_text_01": "minimax", "orion": "llama", "skywork": "llama", "telechat": "llama",
    "xverse": "llama", "nemotron-nas": "llama", "decilm": "llama", "step3_text": "step3",
    "phi3small": "phi", "phi3_v": "phi3", "phi4mm": "phi3", "ernie4_5_moe_vl": "ernie4_5_moe",
    "mimo": "qwen2", "pangu_embedded": "llama", "solar": "llama", "smollm": "llama",
}  # fmt: skip
# Every layer is a state-space block without an FFN, or attention and state space side by side.
STATE_ONLY = ("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm")
PARALLEL = ("falcon_h1",)
# The class has no such key, its code has: the period of layers with full attention.
FULL_EVERY = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "llama4_text": 4, "gemma3n_text": 5}
# Facts of types whose default config does not build (modeling files of transformers).
UNGATED = ("nemotron",)
HEAD_NORMS = (
    "llama4_text",
    "dots1",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "hunyuan_vl_text",
    "lfm2_moe",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeInfo:
    """One model type."""

    name: str
    kind: ModelKind = "decoder"
    defaults: Mapping[str, float] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)  # section -> its model_type
    features: frozenset[str] = frozenset()
    gated: bool = True
    norms: QueryNorms = "none"
    extra_positions: int | None = None  # rows of the position table beyond the context
    full_every: int | None = None
    known: bool = True  # false: read by its generic keys

    @property
    def state_only(self) -> bool:
        return self.name in STATE_ONLY

    @property
    def parallel(self) -> bool:
        return self.name in PARALLEL


FEATURES = ("moe", "mla", "sparse", "window", "delta", "mamba")
GENERIC = TypeInfo(name="", features=frozenset(FEATURES), known=False)


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def known_types() -> tuple[str, ...]:
    """Return the names of all types in the table, sorted."""
    return tuple(sorted({*EQUAL, *_table()} - {"transformers"}))


@functools.cache
def type_info(name: str) -> TypeInfo | None:
    """Return what is known of a type; None for others."""
    own = EQUAL.get(name, name)
    record = _table().get(own)
    if not isinstance(record, dict):
        return None
    keys = record["keys"]
    return TypeInfo(
        name=own,
        kind=record["kind"],
        defaults={key: value for key, value in keys.items() if not isinstance(value, bool)},
        flags={key: value for key, value in keys.items() if isinstance(value, bool)},
        sections=record.get("sections", {}),
        features=frozenset(item for item in FEATURES if record.get(item)),
        gated=record.get("gated", own not in UNGATED),
        norms=record.get("norms", "head" if own in HEAD_NORMS else "none"),
        extra_positions=record.get("positions"),
        full_every=record.get("full_every") or FULL_EVERY.get(own),
        known="off" not in record,
    )

"""Write catalog/huggingface/model_types.json from the transformers library.

For every model type: the default of each size key, and facts that no config states, read from the
model built without memory (torch's meta device): whether the FFN is gated, where queries are
normalised, which embeddings exist. Usage: python tools/model_types.py
"""

from __future__ import annotations

import json
import math
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from gpuyard.catalog.huggingface.roles import (
    AUDIO_SECTIONS,
    LAYER_KEYS,
    ROLES,
    TEXT_SECTIONS,
    VISION_SECTIONS,
)

OUTPUT = Path(__file__).parent.parent / "src/gpuyard/catalog/huggingface/model_types.json"
KEYS = {name for names in ROLES.values() for name in names} | set(LAYER_KEYS)
FLAGS = {"tie_word_embeddings", "use_sliding_window", "attn_output_gate", "attention_k_eq_v",
         "use_double_wide_mlp", "is_gated_act", "block_auto_adjust_ff_dim", "multi_query"}  # fmt: skip
SECTIONS = (*TEXT_SECTIONS, *VISION_SECTIONS, *AUDIO_SECTIONS, "encoder")
GATED = re.compile(r"gate_proj|gate_up_proj|wi_1|\.w3\b|up_gate_proj|gated_layers|dense_gate")
MLP = re.compile(r"(mlp|ffn|feed_forward|fc1|intermediate|experts|DenseReluDense)")
NORM = re.compile(r"\.(q_norm|q_layernorm|query_norm|query_layernorm|q_ln|qnorm)\.weight$")
POSITIONS = re.compile(
    r"(?:^|\.)(position_embeddings?|embed_positions|wpe|position_embed|positions_embed|"
    r"pos_embed)\.weight$"
)
TOLERANCE = 0.1  # of the parameter count; types beyond it are read with wider error bars
Sizes = dict[str, tuple[int, dict[str, Any]]]
TOWER = re.compile(r"vision|visual|audio|image|speech")


def facts(parameters: dict[str, tuple[int, ...]], config: dict[str, Any]) -> dict[str, Any]:
    """Return what the parameters say about the language model."""
    names = {name: shape for name, shape in parameters.items() if not TOWER.search(name)}
    ffn = next((config[key] for key in ROLES["ffn"] if isinstance(config.get(key), int)), 0)
    doubled = any(
        2 * ffn in shape and ffn not in shape and MLP.search(name)
        for name, shape in names.items()
        if ffn and len(shape) == 2
    )
    result: dict[str, Any] = {}
    if not (doubled or any(GATED.search(name) for name in names)):
        result["gated"] = False
    norms = [shape[0] for name, shape in names.items() if NORM.search(name)]
    heads = next((config[key] for key in ROLES["heads"] if isinstance(config.get(key), int)), 0)
    hidden = next((config[key] for key in ROLES["hidden"] if isinstance(config.get(key), int)), 0)
    if norms and hidden:
        width = config.get("head_dim") or hidden // max(heads, 1)
        result["norms"] = "head" if norms[0] <= width else "layer"
    tables = [shape for name, shape in names.items() if POSITIONS.search(name) and len(shape) == 2]
    context = next((config[key] for key in ROLES["context"] if isinstance(config.get(key), int)), 0)
    if tables and context:
        result["positions"] = max(0, tables[0][0] - context)
    if any(re.search(r"experts\.|\.experts|expert_", name) for name in names):
        result["moe"] = True
    return result


def layer_period(config: dict[str, Any]) -> int | None:
    """Return n if every n-th layer has full attention, by the class's default."""
    kinds = config.get("layer_types")
    if not isinstance(kinds, list) or "full_attention" not in kinds:
        return None
    full = [index for index, kind in enumerate(kinds) if kind == "full_attention"]
    period = full[0] + 1
    return period if period > 1 and full == list(range(full[0], len(kinds), period)) else None


def derived(own: dict[str, float]) -> list[str]:
    """Return keys whose default follows from others: they would be wrong for another size."""
    hidden, heads = own.get("hidden_size", 0), own.get("num_attention_heads", 0)
    return [
        key
        for key, value in own.items()
        if (key in ROLES["head_dim"] and heads and value == hidden // heads)
        or (key in ROLES["step_rank"] and value == -(-hidden // 16))
        or (key in ROLES["lru"] and value == hidden)
    ]


def kind_of(name: str, auto: Any, config: dict[str, Any]) -> str:
    """Return the kind of model: by the heads that the library has for it."""
    if name in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return "encoder-decoder"
    if name in auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES and "decoder_layers" in config:
        return "encoder-decoder"
    if name in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "encoder"
    if "patch_size" in config and "vocab_size" not in config:
        return "vision"
    if name.endswith(("_vision", "_vision_model", "_vision_encoder")):
        return "vision"
    return "decoder"


def entry(name: str, auto: Any, classes: Any, torch: Any, sizes: Sizes) -> dict[str, Any] | None:
    """Return the record of one type; None for types without layers."""
    config_class = classes.CONFIG_MAPPING[name]
    try:
        config = config_class()
    except Exception as error:  # a class that has no default
        print(f"{name}: no default config ({type(error).__name__})")
        return None
    values = config.to_dict()
    sections = {
        key: getattr(sub, "model_type", "")
        for key, sub in (config_class.sub_configs or {}).items()
        if key in SECTIONS
    }
    aliases = {key: values.get(target) for key, target in config_class.attribute_map.items()}
    own = {
        key: value
        for key, value in {**aliases, **values}.items()
        if (key in KEYS and isinstance(value, int | float) and not isinstance(value, bool))
        or (key in FLAGS and isinstance(value, bool))
    }
    for key in derived(own):
        del own[key]
    if not sections and not any(key in own for key in ROLES["hidden"]):
        return None
    record: dict[str, Any] = {"kind": kind_of(name, auto, values), "keys": own}
    if sections:
        record["sections"] = {key: sub for key, sub in sections.items() if sub}
    if period := layer_period(values):
        record["full_every"] = period
    known = set(values) | set(aliases)
    for feature, roles in {
        "window": ROLES["window"], "mla": ROLES["kv_rank"], "sparse": ROLES["index_top_k"],
        "delta": ROLES["delta_key_heads"], "mamba": ROLES["state"],
    }.items():  # fmt: skip
        if known & set(roles):
            record[feature] = True
    model = built(name, config, auto, torch)
    if model is None:
        if known & set(ROLES["experts"]):
            record["moe"] = True
    else:
        total = sum(math.prod(shape) for shape in model.values())
        if name.endswith("_text") and not values.get("tie_word_embeddings", True):
            # The language model of a composite type is built without its head.
            total += values.get("vocab_size", 0) * values.get("hidden_size", 0)
        sizes[name] = (total, values)
        record |= facts(model, values)
        if record.get("moe") and not known & set(ROLES["experts"]):
            del record["moe"]
    return record


def built(name: str, config: Any, auto: Any, torch: Any) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes of the parameters; None if the class does not build by default."""
    import transformers

    heads = (
        (auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForSeq2SeqLM),
        (auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES, transformers.AutoModelForSpeechSeq2Seq),
        (auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, transformers.AutoModelForMaskedLM),
        (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, transformers.AutoModelForCausalLM),
        (auto.MODEL_MAPPING_NAMES, transformers.AutoModel),
    )
    head = next((cls for names, cls in heads if name in names), None)
    if head is None:
        return None
    try:
        with torch.device("meta"):
            model = head.from_config(config)
    except Exception as error:  # timm, natten, or no size by default
        print(f"{name}: not built ({type(error).__name__})")
        return None
    return {key: tuple(value.shape) for key, value in model.named_parameters()}


def main() -> None:
    """Write the table."""
    warnings.filterwarnings("ignore")
    import torch
    import transformers
    from transformers.models.auto import configuration_auto
    from transformers.models.auto import modeling_auto as auto

    transformers.logging.set_verbosity_error()
    records: dict[str, dict[str, Any]] = {}
    sizes: Sizes = {}
    for name in sorted(configuration_auto.CONFIG_MAPPING_NAMES):
        record = entry(name, auto, configuration_auto, torch, sizes)
        if record is not None:
            records[name] = record
    write(records, transformers.__version__)
    for name, error in errors(sizes).items():
        if abs(error) > TOLERANCE:
            records[name]["off"] = round(error, 3)
    write(records, transformers.__version__)
    within = sum("off" not in records[name] for name in sizes)
    print(f"{len(records)} types; {within} of {len(sizes)} within {TOLERANCE:.0%}")


def errors(sizes: Sizes) -> dict[str, float]:
    """Return the relative error of our parameter count of each type's default config."""
    from gpuyard.catalog.huggingface.read import read_config
    from gpuyard.errors import InputError

    result = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        for name, (true, values) in sizes.items():
            path.write_text(json.dumps({**values, "model_type": name}, default=str))
            try:
                result[name] = read_config(path).parameters_count / true - 1.0
            except InputError:
                continue  # a default that is not a model
    return result


def write(records: dict[str, dict[str, Any]], version: str) -> None:
    """Write one line per type."""
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(record, sort_keys=True)}"
        for name, record in records.items()
    )
    OUTPUT.write_text(f'{{\n  "transformers": "{version}",\n{lines}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()

"""Read a Hugging Face `config.json` as a Model, for any model type.

A known type has its keys, defaults and facts in types.py; an unknown one is read by the keys that
most types share, and its predictions have wider intervals.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpuyard.catalog.huggingface.keys import ConfigKeys
from gpuyard.catalog.huggingface.roles import (
    AUDIO_SECTIONS,
    CORE,
    TEXT_SECTIONS,
    VISION_SECTIONS,
)
from gpuyard.catalog.huggingface.shape import transformer
from gpuyard.catalog.huggingface.towers import Tower, tower
from gpuyard.catalog.huggingface.types import GENERIC, TypeInfo, known_types, type_info
from gpuyard.catalog.models import Model, Transformer
from gpuyard.document.read import read_json, read_text
from gpuyard.document.tree import Mapping as Keyed
from gpuyard.document.tree import Scalar
from gpuyard.errors import InputError, closest_match

DESCRIBED = "describe it under model: (layers, hidden, heads, …)"
NOT_JSON = re.compile(r"(?<=[\[,:\s])-?(Infinity|NaN)(?=[\],}\s])")
MAX_DEPTH = 3  # thinker_config.text_config


def read_config(path: Path) -> Model:
    """Return the model of a Hugging Face config.json, or of the folder that contains it."""
    file = path / "config.json" if path.is_dir() else path
    # Python writes limits of state-space models as Infinity, which is not JSON.
    text = NOT_JSON.sub("null", read_text(file))
    root = read_json(text, str(file)).root
    if not isinstance(root, Keyed):
        fix = "give the config.json next to the weights"
        raise InputError([root.location.problem("not a model config", fix)])
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    info = _info(root)
    if info.kind == "vision" or (info.kind == "encoder" and "vision_config" in info.sections):
        return _vision_model(root, info, name, str(file))
    if "vision_config" in info.sections and _dual(info):
        return _vision_model(root, info, name, str(file))
    return _language_model(root, info, name, str(file))


def _dual(info: TypeInfo) -> bool:
    """An encoder of images and one of texts (CLIP, SigLIP): no part generates."""
    text = info.sections.get("text_config", "")
    return text.endswith("_text_model") and info.name not in ("mllama", "emu3")


def _info(root: Keyed) -> TypeInfo:
    """Return what is known of the file's type; an unknown type is read by generic keys."""
    node = root.get("model_type")
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        fix = f'add it, such as "model_type": "llama", or {DESCRIBED}'
        raise InputError([root.location.problem('"model_type" is missing', fix)])
    info = type_info(node.value)
    if info is not None:
        return info
    generic = ConfigKeys(root, GENERIC)
    inside = _section(root, GENERIC, TEXT_SECTIONS)
    if inside is not None or all(generic.given(role) for role in CORE):
        return GENERIC
    absent = ", ".join(generic.name_of(role) for role in CORE if not generic.given(role))
    meant = closest_match(node.value, known_types())
    fix = f'did you mean "{meant}"? otherwise ' if meant else ""
    what = f'unknown model_type "{node.text[:60]}" without {absent}'
    raise InputError([node.location.problem(what, f"{fix}add these keys, or {DESCRIBED}")])


def _section(root: Keyed, info: TypeInfo, names: tuple[str, ...]) -> tuple[Keyed, TypeInfo] | None:
    """Return the first of these sections and its type: its own, or the outer type's default."""
    for name in names:
        node = root.get(name)
        if not isinstance(node, Keyed):
            continue
        own = node.get("model_type")
        named = own.value if isinstance(own, Scalar) and isinstance(own.value, str) else ""
        inner = type_info(named) or type_info(info.sections.get(name, "")) or GENERIC
        return node, inner
    return None


def _language(root: Keyed, info: TypeInfo) -> ConfigKeys:
    """Return the section with the language model; some files have its keys at the root."""
    keys, outer = root, None
    for _ in range(MAX_DEPTH):
        if info.kind == "encoder-decoder" and ConfigKeys(keys, info).given("layers"):
            break
        section = _section(keys, info, TEXT_SECTIONS)
        if section is None:
            break
        outer = keys
        keys, info = section
    config = ConfigKeys(keys, info, outer)
    section_name = next((name for name in TEXT_SECTIONS if name in info.sections), None)
    if section_name is None:
        return config
    if not (config.given("layers") and config.given("hidden")):
        fix = "use the published config.json"
        raise InputError([keys.location.problem(f'"{section_name}" is missing', fix)])
    # The keys of the language model are at the root.
    return ConfigKeys(keys, type_info(info.sections[section_name]) or GENERIC, outer)


def _language_model(root: Keyed, info: TypeInfo, name: str, file: str) -> Model:
    config = _language(root, info)
    shape = transformer(config)
    if shape is not None:
        _check(shape, config)
    if config.problems or shape is None:
        raise InputError(config.problems)
    towers = [
        encoder
        for names in (VISION_SECTIONS, AUDIO_SECTIONS)
        if (section := _section(root, info, names)) is not None
        and (encoder := tower(ConfigKeys(*section))) is not None
    ]
    other = sum(encoder.parameters for encoder in towers) + _layer_embeddings(config, shape)
    kind = config.info.kind if config.info.kind != "vision" else "decoder"
    return Model(
        name=name or "model",
        label=name or "model",
        kind=kind,
        parameters_count=shape.parameters() + other,
        active_parameters_count=shape.active_parameters() + other if shape.moe else None,
        other_parameters_count=other,
        transformer=shape,
        shape_is_estimated=not config.info.known,
        source=(file,),
        note="; ".join(_notes(config, towers)),
    )


def _notes(config: ConfigKeys, towers: list[Tower]) -> list[str]:
    notes = ["size computed from the shape"]
    if config.info.name == "":
        notes.append("unknown model_type, read by its generic keys: check layers and size")
    if config.assumed:
        listed = ", ".join(f"{name} {value:g}" for name, value in sorted(config.assumed.items()))
        notes.append(f"defaults of transformers: {listed}")
    if towers:
        notes.append(
            f"with encoders of {sum(item.parameters for item in towers) / 1e9:.2f}B parameters"
        )
    return notes


def _layer_embeddings(config: ConfigKeys, shape: Transformer) -> int:
    """Embeddings per layer (Gemma 3n and 4), which are looked up, not multiplied."""
    width = config.defaulted("layer_input", 0)
    if not width:
        return 0
    rows = config.defaulted("layer_vocab", 0) or shape.vocab
    return shape.layers * width * (rows + 3 * shape.hidden)


def _check(shape: Transformer, config: ConfigKeys) -> None:
    """Report numbers that do not fit together."""
    if shape.expert_layers > shape.layers or shape.softmax_layers > shape.layers:
        config.wrong(config.keys.location, "more listed layers than layers", "fix the lists")
    if shape.key_value_heads > shape.heads:
        config.wrong(
            config.keys.location,
            f"{shape.key_value_heads} key/value heads of {shape.heads} heads",
            'fix "num_key_value_heads"',
        )


def _vision_model(root: Keyed, info: TypeInfo, name: str, file: str) -> Model:
    section = _section(root, info, VISION_SECTIONS)
    if section is None and "vision_config" in info.sections:
        fix = "use the published config.json"
        raise InputError([root.location.problem('"vision_config" is missing', fix)])
    config = ConfigKeys(*section) if section else ConfigKeys(root, info)
    encoder = tower(config, strict=True)
    if encoder is None:
        raise InputError(config.problems)
    text = _section(root, info, TEXT_SECTIONS)
    reader = ConfigKeys(*text) if text else None
    beside = tower(reader) if reader else None
    vocab = reader.defaulted("vocab") if reader else None
    other = beside.parameters + (vocab or 0) * beside.hidden if beside else 0
    return Model(
        name=name or "model",
        label=name or "model",
        kind="vision",
        parameters_count=encoder.parameters + other,
        other_parameters_count=other,
        forward_flop_per_sample=encoder.flop,
        source=(file,),
        note=f"size computed from the shape; one image is {encoder.tokens:,} patches",
    )

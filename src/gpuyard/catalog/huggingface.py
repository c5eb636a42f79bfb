"""Read a Hugging Face `config.json` as a Model: a table of key names per model family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuyard.catalog.models import (
    LatentAttention,
    MixtureOfExperts,
    Model,
    ModelKind,
    QueryNorms,
    Transformer,
)
from gpuyard.document.read import read_json, read_text
from gpuyard.document.tree import Mapping as Keyed
from gpuyard.document.tree import Node, Scalar, SourceLocation
from gpuyard.errors import InputError, Problem, choices_text, closest_match

MAX_DIMENSION = 10**9  # larger numbers mean a wrong file


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Key names of one `model_type`; of several names the first that exists is used."""

    kind: ModelKind = "decoder"
    inside: str = ""  # key of the section with the shape
    layers: tuple[str, ...] = ("num_hidden_layers",)
    hidden: tuple[str, ...] = ("hidden_size",)
    heads: tuple[str, ...] = ("num_attention_heads",)
    kv_heads: tuple[str, ...] = ("num_key_value_heads",)
    head_dim: tuple[str, ...] = ("head_dim",)
    ffn: tuple[str, ...] = ("intermediate_size",)
    vocab: tuple[str, ...] = ("vocab_size",)
    context: tuple[str, ...] = ("max_position_embeddings",)
    window: tuple[str, ...] = ("sliding_window",)
    full_attention_every: int | None = None  # unless sliding_window_pattern says otherwise
    experts: tuple[str, ...] = ()
    expert_ffn: tuple[str, ...] = ("moe_intermediate_size",)
    shared_experts: tuple[str, ...] = ()
    shared_ffn: tuple[str, ...] = ()
    always_shared: int = 0  # shared experts if no key counts them
    dense_layers: tuple[str, ...] = ()
    every: tuple[str, ...] = ()
    latent: bool = False  # multi-head latent attention
    norms: QueryNorms = "none"
    gated: bool = True
    tied: bool = False  # unless tie_word_embeddings says otherwise
    learned_positions: bool = False
    extra_positions: int = 0  # rows of the position table before the first token
    ffn_ratio: tuple[str, ...] = ()
    ffn_per_hidden: int = 0  # MLP size / hidden size, if the file has neither
    one_kv_head: str = ""  # a flag that means one key/value head
    unless: str = ""  # … unless this flag is true
    # Defaults of the transformers library for missing keys.
    defaults: Mapping[str, int] = field(default_factory=dict)


LLAMA = Family()
GPT2 = Family(
    layers=("n_layer",), hidden=("n_embd",), heads=("n_head",), ffn=("n_inner",),
    context=("n_positions", "n_ctx"), gated=False, tied=True, learned_positions=True,
    ffn_per_hidden=4,
)  # fmt: skip
ENCODER = Family(kind="encoder", gated=False, tied=True, learned_positions=True)
DEEPSEEK = Family(
    experts=("n_routed_experts",), shared_experts=("n_shared_experts",),
    dense_layers=("first_k_dense_replace",), every=("moe_layer_freq",), latent=True,
)  # fmt: skip
GEMMA3 = Family(
    norms="head", tied=True, full_attention_every=6,
    defaults={
        "vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "sliding_window": 4096, "max_position_embeddings": 131072,
    },
)  # fmt: skip
LLAMA4 = Family(
    norms="head", ffn=("intermediate_size_mlp",), experts=("num_local_experts",),
    expert_ffn=("intermediate_size",), every=("interleave_moe_layer_step",), always_shared=1,
    window=("attention_chunk_size",), full_attention_every=4,
)  # fmt: skip
FALCON = Family(
    layers=("num_hidden_layers", "n_layer"), heads=("num_attention_heads", "n_head"),
    kv_heads=("num_kv_heads", "n_head_kv"), ffn=("ffn_hidden_size",), gated=False, tied=True,
    ffn_per_hidden=4, one_kv_head="multi_query", unless="new_decoder_architecture",
)  # fmt: skip
QWEN3 = Family(norms="head")
QWEN3_MOE = replace(QWEN3, experts=("num_experts",), every=("decoder_sparse_step",))
FAMILIES: dict[str, Family] = {
    "bert": ENCODER,
    "bloom": Family(
        layers=("n_layer", "num_hidden_layers"), hidden=("hidden_size", "n_embed"),
        heads=("n_head", "num_attention_heads"), context=("seq_length",), ffn=(), gated=False,
        tied=True, ffn_per_hidden=4,
    ),
    "cohere": replace(LLAMA, tied=True),
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "falcon": FALCON,
    "gemma": replace(LLAMA, tied=True),
    "gemma2": replace(LLAMA, tied=True, full_attention_every=2),
    "gemma3": replace(GEMMA3, inside="text_config"),
    "gemma3_text": GEMMA3,
    "gpt2": GPT2,
    "gpt_bigcode": replace(GPT2, one_kv_head="multi_query"),
    "gpt_neox": replace(LLAMA, gated=False),
    "gpt_oss": replace(
        LLAMA, experts=("num_local_experts",), expert_ffn=("intermediate_size",),
        full_attention_every=2,
    ),
    "gptj": replace(GPT2, tied=False, learned_positions=False),
    "granite": LLAMA,
    "internlm2": LLAMA,
    "kimi_k2": DEEPSEEK,
    "kimi_k25": replace(DEEPSEEK, inside="text_config"),
    "llama": LLAMA,
    "llama4": replace(LLAMA4, inside="text_config"),
    "llama4_text": LLAMA4,
    "minimax_m2": Family(
        norms="layer", experts=("num_local_experts",), expert_ffn=("intermediate_size",),
    ),
    "mistral": LLAMA,
    "mixtral": replace(LLAMA, experts=("num_local_experts",), expert_ffn=("intermediate_size",)),
    "mpt": Family(
        layers=("n_layers",), hidden=("d_model",), heads=("n_heads",), ffn=(),
        context=("max_seq_len",), ffn_ratio=("expansion_ratio", "mlp_ratio"), gated=False,
        tied=True, ffn_per_hidden=4,
    ),
    "nemotron": replace(LLAMA, gated=False),
    "olmo": LLAMA,
    "olmo2": Family(norms="layer"),
    "opt": Family(
        ffn=("ffn_dim",), gated=False, tied=True, learned_positions=True, extra_positions=2,
    ),
    "phi": replace(LLAMA, gated=False),
    "phi3": LLAMA,
    "qwen2": LLAMA,
    "qwen2_moe": replace(
        LLAMA, experts=("num_experts",), shared_ffn=("shared_expert_intermediate_size",),
        always_shared=1, every=("decoder_sparse_step",),
    ),
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3_MOE,
    "qwen3_vl": replace(QWEN3, inside="text_config"),
    "qwen3_vl_moe": replace(QWEN3_MOE, inside="text_config"),
    "roberta": ENCODER,
    "RefinedWeb": FALCON,
    "RefinedWebModel": FALCON,
    "stablelm": LLAMA,
    "xlm-roberta": ENCODER,
}  # fmt: skip


def read_config(path: Path) -> Model:
    """Return the model of a Hugging Face config.json, or of the folder that contains it."""
    file = path / "config.json" if path.is_dir() else path
    root = read_json(read_text(file), str(file)).root
    if not isinstance(root, Keyed):
        fix = "give the config.json next to the weights"
        raise InputError([root.location.problem("not a model config", fix)])
    family, keys = _family(root)
    reader = _Reader(keys, family)
    transformer = reader.transformer()
    if reader.problems or transformer is None:
        raise InputError(reader.problems)
    name = file.resolve().parent.name if file.name == "config.json" else file.stem
    return Model(
        name=name or "model",
        label=name or "model",
        kind=family.kind,
        parameters_count=transformer.parameters(),
        active_parameters_count=transformer.active_parameters() if transformer.moe else None,
        transformer=transformer,
        source=(str(file),),
        note="size computed from the shape" + ("; language model only" if family.inside else ""),
    )


def _family(root: Keyed) -> tuple[Family, Keyed]:
    node = root.get("model_type")
    known = sorted(FAMILIES)
    described = "describe it under model: (layers, hidden, heads, …)"
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        fix = f"add it ({choices_text(known)}), or {described}"
        raise InputError([root.location.problem('"model_type" is missing', fix)])
    if node.value not in FAMILIES:
        meant = closest_match(node.value, known)
        if meant:
            fix = f'did you mean "{meant}"? otherwise {described}'
        else:
            fix = f"{described}; known types: {choices_text(known)}"
        what = f'unknown model_type "{node.text[:60]}"'
        raise InputError([node.location.problem(what, fix)])
    family = FAMILIES[node.value]
    inner = root.get(family.inside) if family.inside else root
    if not isinstance(inner, Keyed):
        where = inner.location if inner else root.location
        what = f'"{family.inside}" is missing'
        raise InputError([where.problem(what, "use the published config.json")])
    return family, inner


class _Reader:
    """One pass over the keys of a config that collects problems."""

    def __init__(self, keys: Keyed, family: Family) -> None:
        self.keys = keys
        self.family = family
        self.problems: list[Problem] = []

    def transformer(self) -> Transformer | None:
        family = self.family
        layers, hidden = self.required(family.layers), self.required(family.hidden)
        heads, vocab = self.required(family.heads), self.required(family.vocab)
        ffn = self.required(
            family.ffn, default=(self.optional(family.ffn_ratio) or family.ffn_per_hidden) * hidden
        )
        context = self.optional(family.context)
        head_dim = self.optional(family.head_dim)
        mla = self.latent() if family.latent else None
        if not mla and not head_dim and heads and hidden % heads:
            self.wrong(
                self.keys.location,
                f"hidden {hidden} is not a multiple of {heads} heads",
                'add "head_dim"',
            )
        moe = self.experts(layers)
        window = None if self.flag("use_sliding_window") is False else self.optional(family.window)
        if self.problems:
            return None
        return Transformer(
            layers=layers,
            hidden=hidden,
            heads=heads,
            ffn=ffn,
            vocab=vocab,
            kv_heads=self.kv_heads(),
            head_dim=head_dim,
            gated=family.gated,
            tied_embeddings=self.tied(),
            learned_positions=(context or 0) + family.extra_positions
            if family.learned_positions
            else 0,
            max_context_tokens=context,
            sliding_window_tokens=window,
            full_attention_every=self.full_attention_every() if window else None,
            query_norms=family.norms,
            moe=moe,
            mla=mla,
        )

    def experts(self, layers: int) -> MixtureOfExperts | None:
        family = self.family
        experts = self.optional(family.experts)
        if experts is None:
            return None
        dense_layers = self.optional(family.dense_layers, minimum=0) or 0
        if layers and dense_layers > layers:
            self.wrong(
                self.keys.location,
                f"{dense_layers} dense layers of {layers}",
                f'fix "{family.dense_layers[0]}"',
            )
        top_k = self.required(("num_experts_per_tok", "experts_per_token"))
        if top_k > experts:
            self.wrong(
                self.keys.location,
                f"{top_k} experts per token of {experts}",
                'fix "num_experts_per_tok"',
            )
        return MixtureOfExperts(
            experts=experts,
            top_k=top_k,
            expert_ffn=self.required(family.expert_ffn),
            shared_experts=self.optional(family.shared_experts, minimum=0) or family.always_shared,
            shared_ffn=self.optional(family.shared_ffn, minimum=0) or 0,
            dense_layers=dense_layers,
            every=self.optional(family.every) or 1,
        )

    def latent(self) -> LatentAttention:
        return LatentAttention(
            kv_rank=self.required(("kv_lora_rank",)),
            rope_dim=self.required(("qk_rope_head_dim",)),
            nope_dim=self.required(("qk_nope_head_dim",)),
            value_dim=self.required(("v_head_dim",)),
            q_rank=self.optional(("q_lora_rank",), minimum=0) or 0,
        )

    def kv_heads(self) -> int | None:
        family = self.family
        if (
            family.one_kv_head
            and self.flag(family.one_kv_head)
            and not (family.unless and self.flag(family.unless))
        ):
            return 1
        return self.optional(family.kv_heads)

    def tied(self) -> bool:
        given = self.flag("tie_word_embeddings")
        return self.family.tied if given is None else given

    def full_attention_every(self) -> int | None:
        return (
            self.optional(("sliding_window_pattern", "_sliding_window_pattern"))
            or self.family.full_attention_every
        )

    def required(self, names: tuple[str, ...], default: int = 0) -> int:
        """The integer under the first existing name; a problem if there is none and no default."""
        value = self.optional(names)
        if value is None and not default:
            if not any(self._given(names)):
                name = names[0] if names else "intermediate_size"
                fix = f'add "{name}": <number>, or use the published config.json'
                self.wrong(self.keys.location, f'"{name}" is missing', fix)
            return 0
        return default if value is None else value

    def optional(self, names: tuple[str, ...], minimum: int = 1) -> int | None:
        """The integer under the first existing name, or the default of transformers."""
        for node in self._given(names):
            value = node.value if isinstance(node, Scalar) else None
            if (
                isinstance(value, int)
                and not isinstance(value, bool)
                and minimum <= value <= MAX_DIMENSION
            ):
                return value
            text = node.text[:60] if isinstance(node, Scalar) else "a list or an object"
            fix = f"write {minimum} to {MAX_DIMENSION}"
            self.wrong(node.location, f"expected an integer, got {text}", fix)
            return None
        return next(
            (self.family.defaults[name] for name in names if name in self.family.defaults), None
        )

    def flag(self, name: str) -> bool | None:
        node = self.keys.get(name)
        return node.value if isinstance(node, Scalar) and isinstance(node.value, bool) else None

    def _given(self, names: Iterable[str]) -> Iterable[Node]:
        nodes = (self.keys.get(name) for name in names)
        return (
            node for node in nodes if node and not (isinstance(node, Scalar) and node.value is None)
        )

    def wrong(self, place: SourceLocation, what: str, fix: str) -> None:
        self.problems.append(place.problem(what, fix))

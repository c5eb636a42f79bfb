"""The `train` section: one record per trainer, exactly one of which is set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.models import Transformer
from gpuyard.datasets.data_kind import DataKind
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError, choices_text
from gpuyard.units import RATIO

Precision = Literal["float32", "bfloat16"]
Schedule = Literal["constant", "linear", "cosine"]
Parallel = Literal["ddp", "fsdp"]
Augmentation = Literal["flip", "shift"]
Device = Literal["auto", "cpu", "cuda", "xla"]
Family = Literal[
    "linear",
    "ridge",
    "lasso",
    "elastic_net",
    "random_forest",
    "extra_trees",
    "svm",
    "neighbours",
    "naive_bayes",
    "stack",
]
Positive = Annotated[int, AtLeast(1)]
NotNegative = Annotated[float, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesSpec:
    """Gradient-boosted trees (LightGBM) for classification, regression or ranking."""

    rounds: Annotated[int, AtLeast(1), Doc("trees per class; fewer with early_stopping")] = 100
    leaves: Annotated[int, AtLeast(2), Doc("leaves per tree")] = 31
    depth: Annotated[
        int | None, AtLeast(1), Doc("maximum depth of a tree; default: limited by leaves only")
    ] = None
    learning_rate: NotNegative = 0.1
    min_rows: Annotated[int, AtLeast(1), Doc("minimum rows per leaf")] = 20
    l1: NotNegative = 0.0
    l2: NotNegative = 0.0
    rows_ratio: Annotated[float, RATIO, Doc("share of the rows sampled per tree")] = 1.0
    columns_ratio: Annotated[float, RATIO, Doc("share of the columns sampled per tree")] = 1.0
    early_stopping: Annotated[
        int | None,
        AtLeast(1),
        Doc("stop after N rounds without improvement on the validation rows"),
    ] = None
    ranking: Annotated[
        bool, Doc("learn to rank within groups of rows (LambdaRank); the data must have groups")
    ] = False
    threads: Annotated[int, AtLeast(0), Doc("0: all cores")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SklearnSpec:
    """A scikit-learn model on tables without missing values."""

    family: Annotated[
        Family,
        Doc("for classes, the linear ones are logistic regressions with the same penalty"),
    ] = "ridge"
    alpha: Annotated[
        float, AtLeast(0), Doc("ridge, lasso, elastic_net: strength of the penalty")
    ] = 1.0
    l1_ratio: Annotated[float, RATIO, Doc("elastic_net: share of the L1 penalty")] = 0.5
    trees: Annotated[int, AtLeast(1), Doc("forests, stack: number of trees")] = 100
    depth: Annotated[int | None, AtLeast(1), Doc("forests: maximum depth; default: no limit")] = (
        None
    )
    min_rows: Annotated[int, AtLeast(1), Doc("forests, stack: minimum rows per leaf")] = 1
    c: Annotated[float, AtLeast(1e-9), Doc("svm: inverse strength of the penalty")] = 1.0
    neighbours: Annotated[int, AtLeast(1), Doc("neighbours: rows that vote")] = 5
    threads: Annotated[int, AtLeast(0), Doc("forests; 0: one")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientTrainingSpec:
    """Settings shared by all networks: duration, batches, AdamW and the learning-rate schedule."""

    epochs: Annotated[
        int, AtLeast(1), Doc("passes over the training rows; ignored when steps is set")
    ] = 1
    steps: Annotated[int | None, AtLeast(1), Doc("optimizer steps, instead of epochs")] = None
    batch: Annotated[
        int, AtLeast(1), Doc("rows or sequences per optimizer step, over all processes")
    ] = 32
    accumulate: Annotated[
        int, AtLeast(1), Doc("gradient accumulation: micro-batches per batch, to save memory")
    ] = 1
    learning_rate: NotNegative = 1e-3
    weight_decay: NotNegative = 0.0
    beta1: NotNegative = 0.9
    beta2: NotNegative = 0.999
    clip: Annotated[float | None, AtLeast(0), Doc("maximum gradient norm; default: no limit")] = (
        None
    )
    warmup: Annotated[
        int, AtLeast(0), Doc("steps over which the learning rate rises linearly from zero")
    ] = 0
    schedule: Annotated[
        Schedule, Doc("learning-rate schedule after warm-up; linear and cosine end at zero")
    ] = "constant"
    precision: Annotated[
        Precision, Doc("dtype of the matmuls; weights and optimizer state stay float32")
    ] = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpSpec(GradientTrainingSpec):
    """A multi-layer perceptron on tabular data, for classification or regression."""

    hidden: Annotated[int, AtLeast(1), Doc("units per hidden layer")] = 64
    layers: Annotated[int, AtLeast(0), Doc("number of hidden layers")] = 2
    epochs: Annotated[
        int, AtLeast(1), Doc("passes over the training rows; ignored when steps is set")
    ] = 20
    early_stopping: Annotated[
        int | None,
        AtLeast(1),
        Doc("stop after N epochs without improvement on the validation rows"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchMlpSpec(MlpSpec):
    """The same perceptron in PyTorch."""

    parallel: Annotated[
        Parallel, Doc("ddp: weights replicated per process; fsdp: weights sharded")
    ] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageNetworkSpec(GradientTrainingSpec):
    """A network on images, for classification."""

    epochs: Annotated[
        int, AtLeast(1), Doc("passes over the training rows; ignored when steps is set")
    ] = 20
    weight_decay: NotNegative = 1e-4
    early_stopping: Annotated[
        int | None,
        AtLeast(1),
        Doc("stop after N epochs without improvement on the validation rows"),
    ] = None
    augment: Annotated[
        tuple[Augmentation, ...],
        Doc("random changes of training images: flip (left-right), shift (by up to an eighth)"),
    ] = ()
    base: Annotated[
        str | None,
        Doc("folder of an exported bundle of the same network: transfer learning, new classes"),
    ] = None
    freeze: Annotated[bool, Doc("train the last layer only; with base")] = False
    parallel: Annotated[
        Parallel, Doc("ddp: weights replicated per process; fsdp: weights sharded")
    ] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchCnnSpec(ImageNetworkSpec):
    """A residual convolutional network on images (ResNet v2, arXiv 1603.05027) in PyTorch."""

    channels: Annotated[
        int, AtLeast(1), Doc("channels of the first stage; each further stage has twice as many")
    ] = 32
    stages: Annotated[
        int, AtLeast(1), Doc("stages; each further stage halves height and width")
    ] = 3
    blocks: Annotated[int, AtLeast(1), Doc("residual blocks per stage")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchVitSpec(ImageNetworkSpec):
    """A vision transformer on patches of images (ViT, arXiv 2010.11929) in PyTorch."""

    patch: Annotated[int, AtLeast(1), Doc("pixels per side of a patch")] = 8
    hidden: Annotated[int, AtLeast(1), Doc("width of the embedding")] = 128
    layers: Annotated[int, AtLeast(1), Doc("transformer layers")] = 4
    heads: Annotated[int, AtLeast(1), Doc("attention heads; a divisor of hidden")] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSpec(GradientTrainingSpec):
    """A decoder-only transformer on packed tokens: RMSNorm, RoPE, GQA, SwiGLU."""

    shape: Transformer
    learning_rate: NotNegative = 3e-4
    weight_decay: NotNegative = 0.1
    beta2: NotNegative = 0.95
    clip: Annotated[float | None, AtLeast(0), Doc("maximum gradient norm")] = 1.0
    schedule: Annotated[Schedule, Doc("learning-rate schedule after warm-up")] = "cosine"
    batch: Annotated[int, AtLeast(1), Doc("sequences per optimizer step, over all processes")] = 8
    recompute: Annotated[
        bool, Doc("activation checkpointing: recompute activations in the backward pass")
    ] = False
    rope_theta: Annotated[float, AtLeast(1), Doc("base of the RoPE frequencies")] = 10000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTransformerSpec(TransformerSpec):
    """The same transformer in PyTorch."""

    parallel: Annotated[
        Parallel, Doc("ddp: weights replicated per process; fsdp: weights sharded")
    ] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSpec(GradientTrainingSpec):
    """Low-rank adapters (LoRA, arXiv 2106.09685) on a causal language model from local weights."""

    base: Annotated[str, Doc("folder with config.json and weights, in Hugging Face's layout")]
    rank: Positive = 8
    alpha: Annotated[float, AtLeast(0), Doc("adapter output is scaled by alpha / rank")] = 16.0
    targets: Annotated[
        tuple[str, ...], Doc("linear layers to adapt, by the last part of their name")
    ] = (
        "q_proj",
        "v_proj",
    )
    learning_rate: NotNegative = 2e-4
    batch: Annotated[int, AtLeast(1), Doc("sequences per optimizer step, over all processes")] = 8
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVarSpec:
    """An environment variable."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """The user's own program, in any framework; the guide `train` explains the contract."""

    run: Annotated[tuple[str, ...], Doc("program and arguments")]
    env: Annotated[tuple[EnvVarSpec, ...], Doc("additional environment variables")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """The `train` section: one trainer with its settings, and the settings all trainers share."""

    seed: Annotated[int, AtLeast(0)] = 0
    validation_ratio: Annotated[
        float, RATIO, Doc("share of the training rows held out for validation")
    ] = 0.0
    checkpoint_every: Annotated[
        int, AtLeast(1), Doc("steps (boosting rounds) between checkpoints")
    ] = 100
    log_every: Annotated[
        int, AtLeast(1), Doc("steps (boosting rounds) between lines of metrics")
    ] = 10
    trees: TreesSpec | None = None
    sklearn: SklearnSpec | None = None
    jax_mlp: MlpSpec | None = None
    jax_transformer: TransformerSpec | None = None
    torch_mlp: TorchMlpSpec | None = None
    torch_transformer: TorchTransformerSpec | None = None
    torch_cnn: TorchCnnSpec | None = None
    torch_vit: TorchVitSpec | None = None
    lora: LoraSpec | None = None
    command: CommandSpec | None = None


SHARED = frozenset({"seed", "validation_ratio", "checkpoint_every", "log_every"})
IMAGE_TRAINERS = ("torch_cnn", "torch_vit")
LANGUAGE_TRAINERS = ("jax_transformer", "torch_transformer", "lora")
TRAINER_NAMES = tuple(
    field.name for field in dataclasses.fields(TrainSpec) if field.name not in SHARED
)


def trainer_kinds(trainer: str) -> tuple[DataKind, ...]:
    """Return the kinds of prepared data that a trainer learns from."""
    if trainer == "command":
        return ("table", "tokens", "images")
    if trainer in IMAGE_TRAINERS:
        return ("images",)
    return ("tokens",) if trainer in LANGUAGE_TRAINERS else ("table",)


def trainer_of(spec: TrainSpec, where: str = "train") -> str:
    """Return the name of the spec's trainer; raise InputError unless exactly one is set."""
    names = [name for name in TRAINER_NAMES if getattr(spec, name) is not None]
    if len(names) == 1:
        return names[0]
    what = f"{choices_text(names)} are both set" if names else "no trainer is set"
    raise InputError.one(where, what, f"set one of {', '.join(TRAINER_NAMES)}")

"""Pre-training and fine-tuning: the amount of data, the batch, and the method against the model."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog import Catalog, Model
from gpuyard.units import TOKENS, show
from gpuyard.workload.finding import Finding
from gpuyard.workload.keys import TRAINING
from gpuyard.workload.workload import Workload

__all__ = ["is_batch_within_data", "is_data_counted", "is_method_for_the_task", "is_rank_given", "reads_tokens"]


def reads_tokens(model: Model) -> bool:
    """True of a model whose data is counted in tokens."""
    return model.kind in ("decoder", "encoder", "encoder-decoder")


def is_data_counted(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """The amount of data: tokens of a sequence length for a language model, samples for any other."""
    data, model = workload.data, workload.model
    if workload.task not in TRAINING or data is None or model is None:
        return
    if data.tokens is not None and data.samples_count is not None:
        yield Finding(path="data.samples", what="the data is counted twice, in tokens and in samples", fix="keep one")
    if not reads_tokens(model):
        if data.tokens is not None or data.sequence_tokens is not None:
            key = "tokens" if data.tokens is not None else "sequence"
            yield Finding(
                path=f"data.{key}",
                what=f"{model.name} does not read tokens",
                fix="count the data with samples: <count>",
            )
        elif data.samples_count is None:
            yield Finding(path="data", what='"samples" is missing', fix="add samples: <samples of the data set>")
        return
    if data.tokens is None and data.samples_count is None:
        yield Finding(path="data", what='"tokens" is missing', fix="add tokens: <such as 15T>, or samples: <count>")
    if data.sequence_tokens is None:
        yield Finding(
            path="data", what='"sequence" is missing', fix="add sequence: <tokens of one training sample, such as 8192>"
        )


def is_batch_within_data(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """A batch larger than all the data there is; most often tokens written where samples are meant."""
    data, training = workload.data, workload.training
    if data is None or training is None or training.global_batch_count is None:
        return
    batch = training.global_batch_count
    if data.samples_count is not None and batch > data.samples_count * data.epochs:
        yield Finding(
            path="training.global_batch",
            what=f"a batch of {batch} samples is larger than the data, {data.samples_count} samples",
            fix="write the samples of one step, such as global_batch: 128",
        )
    elif data.tokens is not None and data.sequence_tokens and batch * data.sequence_tokens > data.tokens * data.epochs:
        yield Finding(
            path="training.global_batch",
            what=f"a batch of {batch} samples of {data.sequence_tokens} tokens is larger than the data, "
            f"{show(data.tokens, TOKENS)} tokens",
            fix="write the samples (sequences) of one step, not its tokens, such as global_batch: 2048",
        )


def is_method_for_the_task(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """Adapters in pre-training, or on a model that has no matrices for them."""
    training, model = workload.training, workload.model
    if training is None or training.method == "full":
        return
    if workload.task == "pretraining":
        yield Finding(
            path="training.method",
            what=f"{training.method} trains adapters of a model that is already trained",
            fix="use task: finetuning, or method: full",
        )
    elif model is not None and model.transformer is None:
        yield Finding(
            path="training.method",
            what=f"{training.method} needs the attention and MLP matrices of a transformer; {model.name} is none",
            fix="use method: full",
        )


def is_rank_given(workload: Workload, _catalog: Catalog) -> Iterator[Finding]:
    """A rank where there are adapters, of a size that fits them, and none elsewhere."""
    training, model = workload.training, workload.model
    if training is None:
        return
    if training.method == "full":
        if training.lora_rank is not None:
            yield Finding(
                path="training.lora_rank",
                what="method: full trains every weight and has no adapters",
                fix="remove lora_rank, or use method: lora",
            )
        return
    if training.lora_rank is None:
        yield Finding(
            path="training", what=f"method: {training.method} needs the rank of its adapters", fix="add lora_rank: 16"
        )
    elif model is not None and model.transformer is not None and training.lora_rank > model.transformer.hidden:
        yield Finding(
            path="training.lora_rank",
            what=f"{training.lora_rank} is more than the width of {model.name}, {model.transformer.hidden}",
            fix="use a rank far below the width, such as 16",
        )

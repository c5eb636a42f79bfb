"""Checks of training workloads: the amount of data, the batch, and the method."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.models import Model
from gpuyard.errors import Problem
from gpuyard.units import TOKENS, show
from gpuyard.workload.key_rules import TRAINING
from gpuyard.workload.workload import Workload


def takes_tokens(model: Model) -> bool:
    """Return True if the model's data is counted in tokens."""
    return model.kind in ("decoder", "encoder", "encoder-decoder")


def check_data(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report data without a size: tokens and sequence length for LLMs, samples otherwise."""
    data, model = workload.data, workload.model
    if workload.task not in TRAINING or data is None or model is None:
        return
    if data.tokens is not None and data.samples_count is not None:
        yield Problem(
            where="data.samples",
            what="the amount of data is given twice, in tokens and in samples",
            fix="keep one",
        )
    if not takes_tokens(model):
        if data.tokens is not None or data.sequence_tokens is not None:
            key = "tokens" if data.tokens is not None else "sequence"
            yield Problem(
                where=f"data.{key}",
                what=f"{model.name} does not take tokens",
                fix="use samples: <count> instead",
            )
        elif data.samples_count is None:
            yield Problem(
                where="data",
                what='"samples" is missing',
                fix="add samples: <samples in the dataset>",
            )
        return
    if data.tokens is None and data.samples_count is None:
        yield Problem(
            where="data",
            what='"tokens" is missing',
            fix="add tokens: <such as 15T>, or samples: <count>",
        )
    if data.sequence_tokens is None:
        yield Problem(
            where="data",
            what='"sequence" is missing',
            fix="add sequence: <sequence length in tokens, such as 8192>",
        )


def check_batch(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a batch larger than the data; most often tokens were given instead of samples."""
    data, training = workload.data, workload.training
    if data is None or training is None or training.global_batch_count is None:
        return
    batch = training.global_batch_count
    if data.samples_count is not None and batch > data.samples_count * data.epochs:
        yield Problem(
            where="training.global_batch",
            what=f"a batch of {batch} samples is larger than the dataset, "
            f"{data.samples_count} samples",
            fix="write the samples per step, such as global_batch: 128",
        )
    elif (
        data.tokens is not None
        and data.sequence_tokens
        and batch * data.sequence_tokens > data.tokens * data.epochs
    ):
        yield Problem(
            where="training.global_batch",
            what=f"a batch of {batch} samples of {data.sequence_tokens} tokens is larger than "
            f"the dataset, {show(data.tokens, TOKENS)} tokens",
            fix="write the samples (sequences) per step, not tokens, such as global_batch: 2048",
        )


def check_method(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report adapters in pretraining, or on a model that is not a transformer."""
    training, model = workload.training, workload.model
    if training is None or training.method == "full":
        return
    if workload.task == "pretraining":
        yield Problem(
            where="training.method",
            what=f"{training.method} trains adapters on a pretrained model",
            fix="use task: finetuning, or method: full",
        )
    elif model is not None and model.transformer is None:
        yield Problem(
            where="training.method",
            what=f"{training.method} needs a transformer; {model.name} is not one",
            fix="use method: full",
        )


def check_lora_rank(workload: Workload, _catalog: Catalog) -> Iterator[Problem]:
    """Report a LoRA rank that is missing, too large or unused."""
    training, model = workload.training, workload.model
    if training is None:
        return
    if training.method == "full":
        if training.lora_rank is not None:
            yield Problem(
                where="training.lora_rank",
                what="method: full has no adapters",
                fix="remove lora_rank, or use method: lora",
            )
        return
    if training.lora_rank is None:
        yield Problem(
            where="training",
            what=f"method: {training.method} requires lora_rank",
            fix="add lora_rank: 16",
        )
    elif (
        model is not None
        and model.transformer is not None
        and training.lora_rank > model.transformer.hidden
    ):
        yield Problem(
            where="training.lora_rank",
            what=f"{training.lora_rank} is above the hidden size of {model.name}, "
            f"{model.transformer.hidden}",
            fix="use a rank far below the hidden size, such as 16",
        )

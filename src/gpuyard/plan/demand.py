"""What a training workload asks of a cluster, with the defaults filled in and said."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuyard.catalog import Model, Transformer
from gpuyard.errors import InputError
from gpuyard.workload import Precision, Workload

__all__ = ["TrainingDemand", "training_demand"]

FINETUNING_BATCH = 128  # samples; the default of the Llama 2 fine-tuning recipes (arXiv 2307.09288, sect. 3.1: 64)
TRAINING_PRECISIONS: tuple[Precision, ...] = ("bf16", "fp8")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDemand:
    """The numbers that the search needs."""

    model: Model
    shape: Transformer
    tokens: float
    sequence_tokens: int
    global_batch_count: int
    adapters: bool  # LoRA or QLoRA: the base weights are frozen
    frozen_bytes: float  # of one frozen weight: 4-bit NormalFloat and its scales for QLoRA; 0: at the run's precision
    precisions: tuple[Precision, ...]
    notes: tuple[str, ...] = ()

    @property
    def steps_count(self) -> float:
        """Optimizer steps of the run."""
        return self.tokens / (self.global_batch_count * self.sequence_tokens)


def training_demand(workload: Workload) -> TrainingDemand:
    """The demand of a pre-training or fine-tuning workload."""
    model, data, training = workload.model, workload.data, workload.training
    assert model is not None, "the checks of a training workload ask for a model"
    assert data is not None, "and for data"
    if model.transformer is None:
        raise InputError.one(
            "model",
            f'"{model.name}" has no transformer shape to plan training with',
            "name a transformer, or write its shape",
        )
    sequence = data.sequence_tokens or model.transformer.max_context_tokens or 2048
    tokens = (data.tokens or (data.samples_count or 0) * sequence) * data.epochs
    batch, note = _batch(workload, model, tokens, sequence)
    method = training.method if training else "full"
    precision = workload.requirements.precision
    return TrainingDemand(
        model=model,
        shape=model.transformer,
        tokens=tokens,
        sequence_tokens=sequence,
        global_batch_count=batch,
        adapters=method != "full",
        frozen_bytes=0.52 if method == "qlora" else 0.0,  # 4 bits and 0.127 of scales (arXiv 2305.14314, sect. 3)
        precisions=(precision,) if precision else ("bf16",) if method == "qlora" else TRAINING_PRECISIONS,
        notes=note,
    )


def _batch(workload: Workload, model: Model, tokens: float, sequence: int) -> tuple[int, tuple[str, ...]]:
    """Samples of a step: as asked, or by the rule that published runs follow."""
    asked = workload.training.global_batch_count if workload.training else None
    if asked:
        return asked, ()
    if workload.task == "finetuning":
        return FINETUNING_BATCH, (f"global_batch: {FINETUNING_BATCH} samples, a common choice for fine-tuning",)
    flop = 6.0 * (model.active_parameters_count or model.parameters_count) * tokens
    best_tokens = 0.2920 * flop**0.3271  # batch of the least loss for a budget (DeepSeek LLM, arXiv 2401.02954, eq. 1)
    samples = 2 ** max(0, round(math.log2(best_tokens / sequence)))
    return samples, (f"global_batch: {samples} samples, by the scaling law of DeepSeek LLM (arXiv 2401.02954)",)

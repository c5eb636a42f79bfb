"""Requirements of a training workload, with defaults filled in and noted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuyard.catalog.models import Model, Transformer
from gpuyard.errors import InputError
from gpuyard.plan.training_software import Method
from gpuyard.workload.requirements import PrecisionName
from gpuyard.workload.workload import Workload

# Samples; the Llama 2 fine-tuning recipes use 64 (arXiv 2307.09288, sect. 3.1).
FINETUNING_BATCH = 128
# 4-bit NormalFloat and 0.127 bits of scales per weight (QLoRA, arXiv 2305.14314, sect. 3).
QLORA_WEIGHT_BYTES = 0.52
# The numerics are the choice of the model's owner: fp8 only on request. Its speed is a reason.
TRAINING_PRECISION: PrecisionName = "bf16"
FASTER_PRECISION: PrecisionName = "fp8"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDemand:
    """Inputs of the search over clusters and layouts."""

    model: Model
    shape: Transformer
    tokens: float
    sequence_tokens: int
    global_batch_count: int
    adapters: bool  # LoRA or QLoRA: the base weights are frozen
    frozen_bytes: float  # per frozen weight; 0: at the compute dtype
    method: Method
    precision: PrecisionName
    faster_precision: PrecisionName | None  # what it would gain is shown; None: nothing
    notes: tuple[str, ...] = ()

    @property
    def steps_count(self) -> float:
        return self.tokens / (self.global_batch_count * self.sequence_tokens)


def training_demand(workload: Workload) -> TrainingDemand:
    """Return the demand of a pretraining or fine-tuning workload."""
    model, data, training = workload.model, workload.data, workload.training
    assert model is not None, "the workload checks require a model"
    assert data is not None, "the workload checks require data"
    if model.transformer is None:
        raise InputError.one(
            "model",
            f'"{model.name}" is not a transformer',
            "use a transformer, or describe its shape under model:",
        )
    sequence = data.sequence_tokens or model.transformer.max_context_tokens or 2048
    tokens = (data.tokens or (data.samples_count or 0) * sequence) * data.epochs
    batch, note = _batch(workload, model, tokens, sequence)
    method = training.method if training else "full"
    requested = workload.requirements.precision
    return TrainingDemand(
        model=model,
        shape=model.transformer,
        tokens=tokens,
        sequence_tokens=sequence,
        global_batch_count=batch,
        adapters=method != "full",
        frozen_bytes=QLORA_WEIGHT_BYTES if method == "qlora" else 0.0,
        method=method,
        precision=requested or TRAINING_PRECISION,
        faster_precision=FASTER_PRECISION if requested is None and method != "qlora" else None,
        notes=note,
    )


def _batch(
    workload: Workload, model: Model, tokens: float, sequence: int
) -> tuple[int, tuple[str, ...]]:
    """The global batch of the file, or a default by published rules."""
    requested = workload.training.global_batch_count if workload.training else None
    if requested:
        return requested, ()
    if workload.task == "finetuning":
        return FINETUNING_BATCH, (
            f"global_batch: {FINETUNING_BATCH} samples, a common choice for fine-tuning",
        )
    flop = 6.0 * (model.active_parameters_count or model.parameters_count) * tokens
    # Batch size of the lowest loss for a compute budget (DeepSeek LLM, arXiv 2401.02954, eq. 1).
    best_tokens = 0.2920 * flop**0.3271
    samples = 2 ** max(0, round(math.log2(best_tokens / sequence)))
    return samples, (
        f"global_batch: {samples} samples, by the scaling law of DeepSeek LLM (arXiv 2401.02954)",
    )

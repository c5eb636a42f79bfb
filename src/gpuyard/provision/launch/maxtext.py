"""MaxText: pre-training on TPUs from its base configuration and KEY=VALUE arguments.

Keys: AI-Hypercomputer/maxtext, tag maxtext-v0.2.3 (src/maxtext/configs/base.yml, types.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpuyard.provision.launch.frameworks import StartCommand
from gpuyard.provision.launch.training_run import (
    CHECKPOINT_DIR,
    DATA_DIR,
    TrainingRun,
    read_training_recipes,
)

PROGRAM = "python3 -m maxtext.trainers.pre_train.train"
PRECISIONS = {"bf16": "", "int8": "int8", "fp8": "fp8_full"}
# "minimal_with_context" saves the most of MaxText's policies.
REMAT = {"none": "minimal_with_context", "selective": "save_out_proj", "full": "full"}
OPTIMIZERS = ("adamw", "sgd", "muon")
DATA_NOTE = "The data folder must hold Parquet files with a column text; MaxText tokenises them."
NO_DATA_NOTE = "Without data.location it trains on generated tokens: a benchmark, not a model."
RATE_NOTE = (
    "The learning rate is that of MaxText's base configuration: override it with "
    '--framework-args, for example "learning_rate=1e-4".'
)


def maxtext(run: TrainingRun, arguments: str) -> StartCommand | str:
    """Return the start of a pre-training run, or why MaxText cannot do it."""
    name = read_training_recipes().of(run.model).maxtext
    if not name:
        return f"MaxText has no configuration for {run.model.name}"
    if not run.is_tpu or not run.is_pretraining:
        return "the published image of MaxText pre-trains on TPUs"
    if run.precision not in PRECISIONS or run.optimizer not in OPTIMIZERS:
        return f"it does not train with {run.precision} and {run.optimizer}"
    layout = run.layout
    if layout.pp > 1 or layout.cp > 1 or layout.dp % (run.slice_count * layout.ep):
        return "its layout does not divide into the slices"
    words = [
        f"{PROGRAM} model_name={name} run_name=run",
        *maxtext_arguments(run),
        *((arguments,) if arguments else ()),
    ]
    return StartCommand(
        program=" \\\n  ".join(words),
        notes=(DATA_NOTE if run.has_data else NO_DATA_NOTE, RATE_NOTE),
    )


def maxtext_arguments(run: TrainingRun) -> Iterator[str]:
    """Yield the plan as MaxText's arguments.

    A mesh axis is the product of its part in a slice (ici) and its part between slices (dcn).
    Expert parallelism is a separate axis, taken from the data-parallel ranks.
    """
    layout = run.layout
    axis = "data" if layout.sharding in ("none", "optimizer") else "fsdp"
    within = layout.dp // run.slice_count // layout.ep
    yield f"ici_tensor_parallelism={layout.tp}"
    yield f"ici_expert_parallelism={layout.ep}"
    yield f"ici_fsdp_parallelism={within if axis == 'fsdp' else 1}"
    yield f"ici_data_parallelism={within if axis == 'data' else 1}"
    yield f"dcn_fsdp_parallelism={run.slice_count if axis == 'fsdp' else 1}"
    yield f"dcn_data_parallelism={run.slice_count if axis == 'data' else 1}"
    if layout.sharding == "optimizer":
        yield "shard_optimizer_over_data=true"
    chips = layout.tp * layout.dp
    yield f"per_device_batch_size={layout.micro_batch * layout.dp / chips:g}"
    yield f"gradient_accumulation_steps={layout.gradient_accumulation}"
    yield f"max_target_length={run.sequence_tokens}"
    yield f"steps={run.steps_count}"
    yield f"remat_policy={REMAT[layout.recompute]}"
    if layout.offload == "optimizer":
        yield "optimizer_memory_host_offload=true"
    if PRECISIONS[run.precision]:
        yield f"quantization={PRECISIONS[run.precision]}"
    yield f"opt_type={run.optimizer}"
    yield f'base_output_directory="{CHECKPOINT_DIR}"'
    yield f"checkpoint_period={run.checkpoint_steps}"
    if not run.has_data:
        yield "dataset_type=synthetic"
        return
    yield "dataset_type=grain grain_file_type=parquet"
    yield f'"grain_train_files={DATA_DIR}/*.parquet"'
    if run.hub_name:
        yield f"tokenizer_type=huggingface tokenizer_path={shlex.quote(run.hub_name)}"

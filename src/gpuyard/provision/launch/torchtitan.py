"""TorchTitan: pre-training on GPUs from flags of its job configuration.

Flags: pytorch/torchtitan v0.2.2 (torchtitan/config/job_config.py, models/*/__init__.py); a folder
of text as in hf_datasets/text_datasets.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from gpuyard.plan.option import ParallelLayout
from gpuyard.provision.launch.frameworks import LaunchRequest, StartCommand, torchrun
from gpuyard.provision.launch.training_run import (
    CHECKPOINT_DIR,
    DATA_DIR,
    TrainingRun,
    read_training_recipes,
)

RELEASE = "0.2.2"
OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam"}
KEPT_CHECKPOINTS = 2
# Of TorchTitan's own configurations of Llama 3 (models/llama3/train_configs).
LEARNING_RATES = {"8B": "3e-4", "70B": "1.5e-4", "405B": "8e-5"}
DEFAULT_RATE = "3e-4"
INSTALL_NOTE = (
    f"The script installs torchtitan {RELEASE} into the image; it is tested with the PyTorch of "
    "its release, so pin both in an image."
)
DATA_NOTE = (
    "The data folder must hold JSONL or Parquet files with a column text; TorchTitan tokenises "
    "them."
)
RATE_NOTE = (
    "The learning rate is that of TorchTitan's Llama 3 configurations: override it with "
    "--framework-args, for example --optimizer.lr=1e-4."
)


def torchtitan(run: TrainingRun, arguments: str) -> StartCommand | str:
    """Return the start of a pre-training run, or why TorchTitan cannot do it."""
    name, _, flavor = read_training_recipes().of(run.model).torchtitan.partition(" ")
    layout, shape = run.layout, run.model.transformer
    if not flavor or shape is None:
        return f"TorchTitan has no configuration for {run.model.name}"
    if run.is_tpu or not run.is_pretraining:
        return "TorchTitan pre-trains on GPUs"
    if run.precision != "bf16" or run.optimizer not in OPTIMIZERS or layout.offload != "none":
        return f"it does not train with {run.precision}, {run.optimizer} and offload here"
    if not run.has_data or not run.hub_name:
        return "it needs data.location, and a tokenizer on Hugging Face"
    if shape.layers % (layout.pp * layout.virtual_stages):
        return f"{shape.layers} layers do not divide into the pipeline's stages"
    words = [
        "-m torchtitan.train",
        f"--model.name={name}",
        f"--model.flavor={flavor}",
        '--model.hf_assets_path="$assets"',
        *torchtitan_arguments(run, shape.layers),
        f"--optimizer.lr={LEARNING_RATES.get(flavor, DEFAULT_RATE)}",
        *((arguments,) if arguments else ()),
    ]
    start = torchrun(
        LaunchRequest(
            program=" \\\n  ".join(words),
            machine_count=run.machine_count,
            chips_per_machine=run.chips_per_machine,
            is_tpu=False,
        )
    )
    hub = shlex.quote(run.hub_name)
    lines = (
        f"pip install --quiet torchtitan=={RELEASE}",
        'assets="$(mktemp -d)"',
        f"hf download {hub} --include 'tokenizer*' 'config.json' --local-dir \"$assets\"",
        start.program,
    )
    return replace(start, program="\n".join(lines), notes=(INSTALL_NOTE, DATA_NOTE, RATE_NOTE))


def torchtitan_arguments(run: TrainingRun, layer_count: int) -> Iterator[str]:
    """Yield the plan as TorchTitan's flags.

    With a pipeline the micro-batches of a step pass through it in one forward; without one they
    are accumulated. The optimizer alone (ZeRO-1) is FSDP that gathers weights once per step.
    """
    layout = run.layout
    has_pipeline = layout.pp > 1
    local = layout.micro_batch * (layout.gradient_accumulation if has_pipeline else 1)
    yield f"--training.local_batch_size={local}"
    yield f"--training.global_batch_size={run.global_batch_count}"
    yield f"--training.seq_len={run.sequence_tokens}"
    yield f"--training.steps={run.steps_count}"
    yield "--training.dataset=c4_test"
    yield f'--training.dataset_path="{DATA_DIR}"'
    replicas, shards = _data_parallel(layout, run)
    yield f"--parallelism.data_parallel_replicate_degree={replicas}"
    yield f"--parallelism.data_parallel_shard_degree={shards}"
    if shards > 1:
        policy = "never" if layout.sharding == "optimizer" or has_pipeline else "always"
        yield f"--parallelism.fsdp_reshard_after_forward={policy}"
    yield f"--parallelism.tensor_parallel_degree={layout.tp}"
    yield f"--parallelism.context_parallel_degree={layout.cp}"
    yield f"--parallelism.expert_parallel_degree={layout.ep}"
    yield f"--parallelism.pipeline_parallel_degree={layout.pp}"
    if has_pipeline:
        schedule = "Interleaved1F1B" if layout.virtual_stages > 1 else "1F1B"
        yield f"--parallelism.pipeline_parallel_schedule={schedule}"
        yield f"--parallelism.pipeline_parallel_microbatch_size={layout.micro_batch}"
        yield "--parallelism.pipeline_parallel_first_stage_less_layers=0"
        yield "--parallelism.pipeline_parallel_last_stage_less_layers=0"
        stages = layout.pp * layout.virtual_stages
        yield f"--parallelism.pipeline_parallel_layers_per_stage={layer_count // stages}"
    yield f"--activation_checkpoint.mode={layout.recompute}"
    yield f"--optimizer.name={OPTIMIZERS[run.optimizer]}"
    yield f"--lr_scheduler.warmup_steps={run.warm_up_steps}"
    yield "--checkpoint.enable"
    yield f'--job.dump_folder="{CHECKPOINT_DIR}"'
    yield f"--checkpoint.interval={run.checkpoint_steps}"
    yield f"--checkpoint.keep_latest_k={KEPT_CHECKPOINTS}"


def _data_parallel(layout: ParallelLayout, run: TrainingRun) -> tuple[int, int]:
    """Replicas and shards of the data-parallel ranks; hybrid shards within a machine."""
    if layout.sharding == "none":
        return layout.dp, 1
    if layout.sharding != "hybrid":
        return 1, layout.dp
    inside = max(1, run.chips_per_machine // (layout.tp * layout.cp))
    shards = min(layout.dp, inside)
    return layout.dp // shards, shards

"""Megatron Bridge: a published recipe, with the plan's layout as overrides of its configuration.

Names of recipes, flags and fields: NVIDIA-NeMo/Megatron-Bridge v0.4.2 (scripts/training/
run_recipe.py, src/megatron/bridge/training/config.py, docs/training), the release in the container
nvcr.io/nvidia/nemo:26.04.01.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from gpuyard.provision.launch.frameworks import LaunchRequest, StartCommand, torchrun
from gpuyard.provision.launch.training_run import (
    CHECKPOINT_DIR,
    DATA_DIR,
    TrainingRun,
    read_training_recipes,
)

ROOT = "/opt/Megatron-Bridge"  # in the container
RUN = f"{ROOT}/scripts/training/run_recipe.py"
CONVERT = f"{ROOT}/examples/conversion/convert_checkpoints.py"
# The iteration that Megatron writes when a checkpoint is complete.
COMPLETE = "latest_checkpointed_iteration.txt"
PRECISIONS = {
    "bf16": "bf16_mixed",
    "fp8": "bf16_with_fp8_current_scaling_mixed",
    "fp8-block": "bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
}
OPTIMIZERS = ("adam", "adamw")  # of the recipes
RECOMPUTE = {
    "none": ("model.recompute_granularity=null", "model.recompute_modules=null"),
    "selective": ("model.recompute_granularity=selective", "model.recompute_modules=[core_attn]"),
    "full": (
        "model.recompute_granularity=full",
        "model.recompute_method=uniform",
        "model.recompute_num_layers=1",
        "model.recompute_modules=null",
    ),
}
NOTE = (
    "Learning rate and schedule are the recipe's, with 1 % warm-up: override them with "
    '--framework-args, for example "optimizer.lr=1e-4".'
)


def megatron_bridge(run: TrainingRun, arguments: str) -> StartCommand | str:
    """Return the start of a run with a recipe, or why there is none."""
    recipe = read_training_recipes().of(run.model)
    mode = "pretrain" if run.is_pretraining else "sft" if run.method == "full" else "peft"
    if mode not in recipe.megatron_bridge_modes:
        return f"Megatron Bridge has no {mode} recipe for {run.model.name}"
    if run.precision not in PRECISIONS or run.optimizer not in OPTIMIZERS:
        return f"its recipes do not train with {run.precision} and {run.optimizer}"
    if run.is_tpu or run.method == "qlora":
        return "Megatron Bridge does not run on TPUs or on 4-bit weights"
    name = f"{recipe.megatron_bridge}_{mode}_config"
    words = [
        f"{RUN} --recipe {name}",
        f"--seq_length {run.sequence_tokens}",
        *_data_words(run, mode),
        *(_word(text) for text in overrides(run)),
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
    lines = [*_data_lines(run, mode), *_base_lines(run, mode), start.program]
    return replace(start, program="\n".join(lines), notes=tuple(_notes(run, mode)))


def _word(text: str) -> str:
    return f'"{text}"' if "$" in text else shlex.quote(text)


def overrides(run: TrainingRun) -> Iterator[str]:
    """Yield the plan as Hydra overrides of the recipe's ConfigContainer."""
    layout = run.layout
    yield f"train.train_iters={run.steps_count}"
    yield f"train.global_batch_size={run.global_batch_count}"
    yield f"train.micro_batch_size={layout.micro_batch}"
    yield f"scheduler.lr_warmup_iters={run.warm_up_steps}"
    yield f"model.tensor_model_parallel_size={layout.tp}"
    yield f"model.sequence_parallel={str(layout.tp > 1).lower()}"
    yield f"model.pipeline_model_parallel_size={layout.pp}"
    stages = layout.virtual_stages if layout.virtual_stages > 1 else "null"
    yield f"model.virtual_pipeline_model_parallel_size={stages}"
    yield "model.pipeline_model_parallel_layout=null"  # some recipes set one for their own PP
    shape = run.model.transformer
    if layout.pp > 1 and shape is not None and shape.layers % layout.pp:
        # Embedding and loss count as layers: (layers + 2) is a multiple of the stages.
        yield "model.account_for_embedding_in_pipeline_split=true"
        yield "model.account_for_loss_in_pipeline_split=true"
    yield f"model.context_parallel_size={layout.cp}"
    if shape is not None and shape.moe is not None:
        yield f"model.expert_model_parallel_size={layout.ep}"
        yield "model.expert_tensor_parallel_size=1"
    yield from RECOMPUTE[layout.recompute]
    yield from _offload(run)
    yield f"mixed_precision={PRECISIONS[run.precision]}"
    yield from _sharding(run)
    yield f"checkpoint.save={CHECKPOINT_DIR}"
    yield f"checkpoint.load={CHECKPOINT_DIR}"
    yield f"checkpoint.save_interval={run.checkpoint_steps}"
    if run.method != "full":
        yield f"peft.dim={run.lora_rank}"


def _sharding(run: TrainingRun) -> Iterator[str]:
    layout = run.layout
    if layout.sharding in ("none", "optimizer"):
        sharded = str(layout.sharding == "optimizer").lower()
        yield f"ddp.use_distributed_optimizer={sharded}"
        yield f"optimizer.use_distributed_optimizer={sharded}"
        yield "checkpoint.async_save=true"  # only with the format torch_dist
        return
    yield "ddp.use_megatron_fsdp=true"
    yield "ddp.data_parallel_sharding_strategy=optim_grads_params"
    yield "ddp.average_in_collective=false"
    yield "model.init_model_with_meta_device=true"
    yield "checkpoint.ckpt_format=fsdp_dtensor"
    if layout.sharding == "hybrid":
        # HSDP: shards within a machine, replicas between machines.
        ranks = max(1, run.chips_per_machine // layout.tp)
        yield f"ddp.num_distributed_optimizer_instances={layout.dp * layout.cp // ranks}"


def _offload(run: TrainingRun) -> Iterator[str]:
    shape = run.model.transformer
    if run.layout.offload == "optimizer":
        yield "optimizer.optimizer_cpu_offload=true"
        yield "optimizer.optimizer_offload_fraction=1.0"
        yield "optimizer.use_precision_aware_optimizer=true"
    elif run.layout.offload == "activations" and shape is not None:
        yield "model.cpu_offloading=true"
        yield f"model.cpu_offloading_num_layers={shape.layers - 1}"  # its maximum


def _data_words(run: TrainingRun, mode: str) -> Iterator[str]:
    if mode != "pretrain":
        yield f"--dataset llm-finetune-preloaded dataset.dataset_root={DATA_DIR}"
        if mode == "peft":
            yield "--peft_scheme lora"
        yield 'checkpoint.pretrained_checkpoint="$base"'
    elif run.has_data:
        yield '--dataset llm-pretrain "dataset.blend=[[$prefixes],null]"'
        # The data is mounted read-only, and the index is written once.
        yield f'"dataset.path_to_cache={CHECKPOINT_DIR}-index"'
        if run.hub_name:
            yield "tokenizer.tokenizer_type=HuggingFaceTokenizer"
            yield f"tokenizer.tokenizer_model={shlex.quote(run.hub_name)}"
    else:
        yield "--dataset llm-pretrain-mock"


def _data_lines(run: TrainingRun, mode: str) -> Iterator[str]:
    """Fail before the GPUs start if the data is not in the format that the recipe reads."""
    if mode != "pretrain":
        yield f'[ -r "{DATA_DIR}/training.jsonl" ] || {{'
        yield f'  echo "no training.jsonl (lines of input and output) in {DATA_DIR}" >&2; exit 1'
        yield "}"
    elif run.has_data:
        find = f"find \"{DATA_DIR}\" -name '*.idx' | sort | sed 's/[.]idx$//' | paste -sd,"
        yield f"prefixes=$({find})"
        yield '[ -n "$prefixes" ] || {'
        yield f'  echo "no Megatron indexed data (.bin and .idx) in {DATA_DIR}" >&2; exit 1'
        yield "}"


def _base_lines(run: TrainingRun, mode: str) -> Iterator[str]:
    """Convert the published weights once, on the first machine; the others wait."""
    if mode == "pretrain":
        return
    yield f'base="{CHECKPOINT_DIR}-base"'
    yield f'if [ "${{NODE_RANK:-0}}" = 0 ] && [ ! -e "$base/{COMPLETE}" ]; then'
    model = shlex.quote(run.hub_name)
    yield f'  python {CONVERT} import --hf-model {model} --megatron-path "$base"'
    yield "fi"
    yield f'until [ -e "$base/{COMPLETE}" ]; do sleep 10; done'


def _notes(run: TrainingRun, mode: str) -> Iterator[str]:
    yield NOTE
    if mode != "pretrain":
        yield (
            "The data folder must hold training.jsonl and validation.jsonl with the keys input "
            "and output."
        )
    elif run.has_data:
        yield (
            "The data folder must hold Megatron indexed data (.bin and .idx), tokenised with the "
            f"tokenizer of {run.hub_name or run.model.name}."
        )
    else:
        yield "Without data.location it trains on generated tokens: a benchmark, not a model."

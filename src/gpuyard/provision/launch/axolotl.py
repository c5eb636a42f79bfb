"""Axolotl: fine-tuning with PEFT and TRL from one configuration file.

Keys: axolotl-ai-cloud/axolotl at 067b021 (src/axolotl/utils/schemas, docs/multi-gpu.qmd,
docs/multi-node.qmd).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import yaml

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.launch.frameworks import LaunchRequest, StartCommand, torchrun
from gpuyard.provision.launch.training_run import CHECKPOINT_DIR, DATA_DIR, TrainingRun

LEARNING_RATES = {"full": 1e-5, "lora": 2e-4, "qlora": 2e-4}  # of Axolotl's own examples
OPTIMIZERS = {
    "adamw": "adamw_torch_fused",
    "adam": "adamw_torch_fused",
    "sgd": "sgd",
    "adafactor": "adafactor",
    "lion": "lion_pytorch",
    "muon": "muon",
}
KEPT_CHECKPOINTS = 2
DATA_NOTE = (
    'The data folder must hold JSONL files of conversations ({"messages": [...]}); for another '
    "format change `datasets` in the script."
)
RATE_NOTE = (
    "The learning rate is that of Axolotl's examples: override it with --framework-args, for "
    'example "--learning-rate 1e-4".'
)


def axolotl(run: TrainingRun, arguments: str) -> StartCommand | str:
    """Return the start of a fine-tuning run, or why Axolotl cannot do it."""
    layout = run.layout
    if run.is_tpu or run.is_pretraining:
        return "Axolotl fine-tunes on GPUs"
    if not run.hub_name:
        return f"{run.model.name} has no name on Hugging Face"
    if max(layout.tp, layout.pp, layout.cp, layout.ep) > 1 or run.precision != "bf16":
        return "its layout needs tensor, pipeline, context or expert parallelism, or another dtype"
    config = yaml.safe_dump(axolotl_config(run), sort_keys=False, width=100)
    words = f'-m axolotl.cli.train "$config" {arguments}'.rstrip()
    start = torchrun(
        LaunchRequest(
            program=words,
            machine_count=run.machine_count,
            chips_per_machine=run.chips_per_machine,
            is_tpu=False,
        )
    )
    # The shell replaces the folders of this platform, and nothing else: no value holds a dollar.
    file = 'config="$(mktemp -d)/axolotl.yaml"'
    lines = (file, 'cat >"$config" <<CONFIG', config.rstrip(), "CONFIG", start.program)
    return replace(start, program="\n".join(lines), notes=(DATA_NOTE, RATE_NOTE))


def axolotl_config(run: TrainingRun) -> dict[str, Plain]:
    """Return Axolotl's configuration of the planned run."""
    layout = run.layout
    config: dict[str, Plain] = {
        "base_model": run.hub_name,
        "datasets": [{"path": DATA_DIR, "ds_type": "json", "type": "chat_template"}],
        "val_set_size": 0.0,
        "output_dir": CHECKPOINT_DIR,
        "sequence_len": run.sequence_tokens,
        "sample_packing": False,
        "pad_to_sequence_len": True,  # as the plan counts: every sample has the full length
        "micro_batch_size": layout.micro_batch,
        "gradient_accumulation_steps": layout.gradient_accumulation,
        "num_epochs": run.epochs,
        "optimizer": OPTIMIZERS[run.optimizer],
        "learning_rate": LEARNING_RATES[run.method],
        "lr_scheduler": "cosine",
        "warmup_ratio": 0.03,
        "bf16": True,
        "gradient_checkpointing": layout.recompute == "full" and layout.sharding != "parameters",
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": run.checkpoint_steps,
        "save_total_limit": KEPT_CHECKPOINTS,
        "auto_resume_from_checkpoints": True,
    }
    config |= dict(_adapter(run))
    config |= dict(_sharding(run))
    return config


def _adapter(run: TrainingRun) -> Iterator[tuple[str, Plain]]:
    if run.method == "full":
        return
    yield "adapter", run.method
    yield "load_in_4bit", run.method == "qlora"
    yield "lora_r", run.lora_rank
    yield "lora_alpha", 2 * run.lora_rank
    yield "lora_dropout", 0.0
    yield "lora_target_linear", True


def _sharding(run: TrainingRun) -> Iterator[tuple[str, Plain]]:
    if run.layout.sharding != "parameters":
        return
    yield "fsdp_version", 2
    yield (
        "fsdp_config",
        {
            "reshard_after_forward": True,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "state_dict_type": "SHARDED_STATE_DICT",
            "cpu_ram_efficient_loading": True,
            "offload_params": run.layout.offload == "optimizer",
            # In place of gradient_checkpointing, which FSDP would gather the weights for again.
            "activation_checkpointing": run.layout.recompute == "full",
        },
    )

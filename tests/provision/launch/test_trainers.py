"""Trainers: the plan as flags and files of Megatron Bridge, Axolotl, MaxText and TorchTitan."""

from __future__ import annotations

import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.load import load_catalog
from gpuyard.catalog.models import Model
from gpuyard.errors import InputError
from gpuyard.plan.option import ParallelLayout
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.launch.axolotl import axolotl, axolotl_config
from gpuyard.provision.launch.frameworks import StartCommand
from gpuyard.provision.launch.job import job_launch
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.maxtext import maxtext, maxtext_arguments
from gpuyard.provision.launch.megatron_bridge import megatron_bridge, overrides
from gpuyard.provision.launch.torchtitan import torchtitan, torchtitan_arguments
from gpuyard.provision.launch.trainers import PLANNED, TRAINERS
from gpuyard.provision.launch.training_run import (
    TrainingRun,
    checkpoint_steps,
    read_training_recipes,
)
from gpuyard.provision.platforms.service_account import is_gated
from gpuyard.provision.platforms.uploads import steps_with_uploads
from gpuyard.units import HOUR_S
from gpuyard.workload.sections import Data
from sample_blueprints import BlueprintSample, sample_blueprint

CATALOG = load_catalog()
MEGATRON, AXOLOTL = "Megatron Bridge", "Hugging Face PEFT and TRL"  # labels of the plan's software


def model(name: str) -> Model:
    return next(row for row in CATALOG.models if row.name == name)


def run_of(name: str = "llama-3-70b", **changes: object) -> TrainingRun:
    run = TrainingRun(
        model=model(name),
        method="full",
        is_pretraining=True,
        layout=ParallelLayout(tp=4, pp=8, dp=2, micro_batch=1, gradient_accumulation=128,
                              virtual_stages=5, sharding="optimizer"),
        precision="bf16",
        sequence_tokens=8192,
        epochs=1.0,
        steps_count=50,
        checkpoint_steps=10,
        lora_rank=16,
        optimizer="adamw",
        has_data=True,
        machine_count=8,
        chips_per_machine=8,
    )  # fmt: skip
    return replace(run, **changes)  # type: ignore[arg-type]


def planned(software: str, **requested: str) -> tuple[Blueprint, Launch]:
    machine = next(row for row in CATALOG.machines if row.name == "a3-megagpu-8g")
    sample = BlueprintSample(machine=machine, shape="multi-node", consumption="spot")
    blueprint = sample_blueprint(sample, CATALOG)
    blueprint = replace(blueprint, option=replace(blueprint.option, software=software))
    settings = resolve_settings(blueprint, DeploymentSettings(**requested))  # type: ignore[arg-type]
    return blueprint, job_launch(blueprint, settings, "pod")


def values(words: object) -> dict[str, str]:
    assert not isinstance(words, str)
    return dict(word.split("=", 1) for word in words)  # type: ignore[attr-defined]


def test_megatron_bridge_carries_the_layout_of_the_public_recipe() -> None:
    # AI-Hypercomputer/gpu-recipes at 2e1fd5e: training/a3ultra/llama3_70b/megatron-bridge-gke/
    # nemo2602/64gpus-bf16-seq8192-gbs256/recipe/launcher.sh
    public = {
        "train.global_batch_size": "256",
        "train.micro_batch_size": "1",
        "model.tensor_model_parallel_size": "4",
        "model.pipeline_model_parallel_size": "8",
        "model.context_parallel_size": "1",
        "model.virtual_pipeline_model_parallel_size": "5",
        "train.train_iters": "50",
        "mixed_precision": "bf16_mixed",
    }
    assert public.items() <= values(overrides(run_of())).items()
    start = megatron_bridge(run_of(), "optimizer.lr=1e-4")
    assert isinstance(start, StartCommand)
    assert "--recipe llama3_70b_pretrain_config" in start.program
    assert "--seq_length 8192" in start.program
    assert start.program.endswith("optimizer.lr=1e-4")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (ParallelLayout(sharding="none"), {"ddp.use_distributed_optimizer": "false"}),
        (
            ParallelLayout(dp=16, sharding="parameters"),
            {"ddp.use_megatron_fsdp": "true", "checkpoint.ckpt_format": "fsdp_dtensor"},
        ),
        (
            ParallelLayout(tp=2, dp=16, sharding="hybrid"),
            {"ddp.num_distributed_optimizer_instances": "4"},
        ),
        (
            ParallelLayout(recompute="full"),
            {"model.recompute_granularity": "full", "model.recompute_num_layers": "1"},
        ),
        (ParallelLayout(offload="optimizer"), {"optimizer.optimizer_cpu_offload": "true"}),
        (ParallelLayout(offload="activations"), {"model.cpu_offloading_num_layers": "79"}),
        (ParallelLayout(pp=41), {"model.account_for_loss_in_pipeline_split": "true"}),
    ],
)
def test_megatron_bridge_maps_sharding_recomputation_and_offload(
    layout: ParallelLayout, expected: dict[str, str]
) -> None:
    assert expected.items() <= values(overrides(run_of(layout=layout))).items()


def test_megatron_bridge_sets_experts_and_precision() -> None:
    layout = ParallelLayout(tp=2, pp=16, dp=32, ep=64, sharding="optimizer")
    given_values = values(overrides(run_of("deepseek-v3", layout=layout, precision="fp8-block")))
    assert given_values["model.expert_model_parallel_size"] == "64"
    assert given_values["mixed_precision"] == "bf16_with_fp8_subchannel_scaling_mixed"


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (run_of("llama-65b"), "no pretrain recipe for llama-65b"),
        (run_of("llama-2-7b", is_pretraining=False), "no sft recipe"),
        (run_of(precision="fp32"), "fp32"),
        (run_of(optimizer="muon"), "muon"),
        (run_of(is_tpu=True), "TPUs"),
    ],
)
def test_megatron_bridge_reports_what_it_cannot_run(run: TrainingRun, why: str) -> None:
    reason = megatron_bridge(run, "")
    assert isinstance(reason, str)
    assert why in reason


def executed(start: StartCommand, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a start command with a torchrun that prints its arguments and the files it names."""
    stub = folder / "bin" / "torchrun"
    stub.parent.mkdir(exist_ok=True)
    stub.write_text(
        '#!/bin/bash\nfor word in "$@"; do echo "$word"; '
        'case "$word" in *.yaml) cat "$word";; esac; done\n'
    )
    stub.chmod(0o755)
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{start.program}"],
        env={
            "PATH": f"{stub.parent}:{os.environ['PATH']}",
            "DATA_DIR": str(folder / "data"),
            "CHECKPOINT_DIR": str(folder / "checkpoints"),
            "NODE_COUNT": "2",
            "NODE_RANK": "0",
            "MASTER_ADDR": "here",
            "TMPDIR": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_megatron_bridge_reads_indexed_data_or_fails_before_the_gpus_start(tmp_path: Path) -> None:
    start = megatron_bridge(run_of(), "")
    assert isinstance(start, StartCommand)
    (tmp_path / "data").mkdir()
    done = executed(start, tmp_path)
    assert done.returncode == 1
    assert "no Megatron indexed data" in done.stderr
    for name in ("b.idx", "a.idx", "a.bin"):
        (tmp_path / "data" / name).touch()
    done = executed(start, tmp_path)
    prefixes = f"{tmp_path}/data/a,{tmp_path}/data/b"
    assert f"dataset.blend=[[{prefixes}],null]" in done.stdout.splitlines()
    assert f"checkpoint.save={tmp_path}/checkpoints" in done.stdout.splitlines()
    assert f"dataset.path_to_cache={tmp_path}/checkpoints-index" in done.stdout.splitlines()


def test_megatron_bridge_converts_the_base_model_once(tmp_path: Path) -> None:
    run = run_of(method="lora", is_pretraining=False, layout=ParallelLayout(tp=8, dp=8))
    start = megatron_bridge(run, "")
    assert isinstance(start, StartCommand)
    assert "--recipe llama3_70b_peft_config" in start.program
    assert "--peft_scheme lora" in start.program
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "training.jsonl").touch()
    base = tmp_path / "checkpoints-base"
    base.mkdir()
    (base / "latest_checkpointed_iteration.txt").touch()  # an earlier start has converted it
    done = executed(start, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"checkpoint.pretrained_checkpoint={base}" in done.stdout.splitlines()
    assert "peft.dim=16" in done.stdout.splitlines()


def test_axolotl_config_carries_adapter_batch_and_sharding(tmp_path: Path) -> None:
    layout = ParallelLayout(
        dp=16, micro_batch=2, gradient_accumulation=4, sharding="parameters", recompute="full"
    )
    run = run_of(
        "llama-3-8b", method="qlora", is_pretraining=False, layout=layout, lora_rank=64, epochs=3.0
    )
    start = axolotl(run, "--learning-rate 1e-4")
    assert isinstance(start, StartCommand)
    done = executed(start, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    begin = lines.index("base_model: meta-llama/Meta-Llama-3-8B")
    end = lines.index("--learning-rate")
    config = yaml.safe_load("\n".join(lines[begin:end]))
    assert config["datasets"][0]["path"] == str(tmp_path / "data")
    assert config["output_dir"] == str(tmp_path / "checkpoints")
    assert (config["adapter"], config["load_in_4bit"], config["lora_r"]) == ("qlora", True, 64)
    assert (config["micro_batch_size"], config["gradient_accumulation_steps"]) == (2, 4)
    assert config["num_epochs"] == 3.0
    assert config["fsdp_config"]["activation_checkpointing"] is True
    assert config["gradient_checkpointing"] is False  # FSDP recomputes itself


def test_axolotl_recomputes_without_fsdp_and_refuses_model_parallelism() -> None:
    run = run_of("llama-3-8b", method="lora", is_pretraining=False)
    alone = replace(run, layout=ParallelLayout(dp=8, recompute="full"))
    assert axolotl_config(alone)["gradient_checkpointing"] is True
    assert "fsdp_config" not in axolotl_config(alone)
    assert isinstance(axolotl(run, ""), str)  # tensor parallelism
    assert isinstance(axolotl(replace(alone, is_pretraining=True), ""), str)


@given(
    tp=st.sampled_from((1, 2, 4)),
    ep=st.sampled_from((1, 2, 4)),
    within=st.sampled_from((4, 8, 16)),
    slices=st.sampled_from((1, 2, 4)),
    micro=st.sampled_from((1, 2, 4)),
    accumulation=st.sampled_from((1, 2)),
    sharding=st.sampled_from(("none", "optimizer", "parameters")),
)
def test_maxtext_mesh_and_batch_multiply_to_chips_and_global_batch(
    tp: int, ep: int, within: int, slices: int, micro: int, accumulation: int, sharding: str
) -> None:
    layout = ParallelLayout(
        tp=tp, dp=within * slices, ep=ep, micro_batch=micro, sharding=sharding,
        gradient_accumulation=accumulation,
    )  # fmt: skip
    run = run_of("mixtral-8x7b", layout=layout, slice_count=slices, is_tpu=True, has_data=False)
    given_values = values(maxtext_arguments(run))
    axes = {name: int(value) for name, value in given_values.items() if "parallelism" in name}
    chips = tp * within * slices
    assert math.prod(axes.values()) == chips
    assert math.prod(size for name, size in axes.items() if name.startswith("dcn")) == slices
    batch = float(given_values["per_device_batch_size"]) * chips * accumulation
    assert batch == run.global_batch_count


def test_maxtext_starts_a_tpu_run_with_its_own_name_of_the_model() -> None:
    layout = ParallelLayout(dp=256, sharding="parameters", recompute="full")
    start = maxtext(run_of("llama-3.1-8b", layout=layout, is_tpu=True), "learning_rate=1e-4")
    assert isinstance(start, StartCommand)
    assert "model_name=llama3.1-8b" in start.program
    assert "ici_fsdp_parallelism=256" in start.program
    assert "remat_policy=full" in start.program
    assert isinstance(maxtext(run_of("llama-3.1-8b", is_tpu=True), ""), str)  # pipeline stages
    assert isinstance(maxtext(run_of("llama-3.1-8b", layout=layout), ""), str)  # GPUs


def test_planned_software_trains_without_a_program() -> None:
    blueprint, launch = planned(MEGATRON)
    assert launch.framework == "megatron-bridge"
    assert "--recipe llama3_8b_pretrain_config" in launch.program
    assert not any("placeholder" in note for note in launch.notes)
    assert not any(row.name.startswith("PLAN_") for row in launch.variables)
    assert launch.env_scripts  # the fabric's
    assert is_gated(blueprint, resolve_settings(blueprint, DeploymentSettings()))


def test_own_program_gets_the_layout_in_variables() -> None:
    blueprint, launch = planned(MEGATRON, program="mine.py")
    assert launch.program.endswith("mine.py")
    assert any(row.name == "PLAN_DATA_PARALLEL" for row in launch.variables)
    assert not is_gated(
        blueprint, resolve_settings(blueprint, DeploymentSettings(program="mine.py"))
    )


def test_trainer_that_cannot_run_the_plan_leaves_a_placeholder_or_is_refused() -> None:
    _, launch = planned(AXOLOTL)  # a pre-training
    assert launch.framework == "torch"
    assert any("Axolotl fine-tunes" in note for note in launch.notes)
    assert any("placeholder" in note for note in launch.notes)
    with pytest.raises(InputError, match="axolotl cannot run this plan"):
        planned(MEGATRON, framework="axolotl")


def test_checkpoint_interval_follows_the_interruptions_of_the_plan() -> None:
    blueprint, _ = planned(MEGATRON)
    blueprint = replace(
        blueprint, option=replace(blueprint.option, step_s=10.0, steps_count=1000.0)
    )
    assert checkpoint_steps(blueprint) == HOUR_S / 10  # no record
    often = replace(blueprint, mean_time_between_interruptions_s=float(HOUR_S))
    # Young: sqrt(2 × 60 s × 3600 s) = 657 s, less the higher-order terms
    assert checkpoint_steps(often) in range(60, 66)


def test_local_dataset_is_uploaded_and_mounted() -> None:
    blueprint, _ = planned(MEGATRON)
    workload = replace(blueprint.workload, data=Data(location="./my data"))
    blueprint = replace(blueprint, workload=workload)
    settings = resolve_settings(blueprint, DeploymentSettings(bucket="mine"))
    launch = job_launch(blueprint, settings, "pod")
    assert [(row.bucket, row.folder, row.path) for row in launch.mounts][1] == (
        "mine",
        "data",
        "/mnt/data",
    )
    (step,) = steps_with_uploads(blueprint, settings, ())
    assert step.command == "gcloud storage rsync --recursive './my data' gs://mine/data"


def test_recipes_name_models_of_the_catalog_and_trainers_exist() -> None:
    names = {row.name for row in CATALOG.models}
    rows = read_training_recipes().models
    assert {row.name for row in rows} <= names
    assert all(bool(row.megatron_bridge) == bool(row.megatron_bridge_modes) for row in rows)
    assert set(PLANNED.values()) == set(TRAINERS)


TITAN = ParallelLayout(
    tp=4, pp=4, dp=4, micro_batch=1, gradient_accumulation=16, virtual_stages=5,
    sharding="optimizer", recompute="full",
)  # fmt: skip


def titan_flags(run: TrainingRun, folder: Path) -> dict[str, str]:
    """The flags that TorchTitan gets, after the shell has read the script."""
    start = torchtitan(run, "")
    assert isinstance(start, StartCommand), start
    for name in ("pip", "hf"):
        stub = folder / "bin" / name
        stub.parent.mkdir(exist_ok=True)
        stub.write_text("#!/bin/bash\nexit 0\n")
        stub.chmod(0o755)
    done = executed(start, folder)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    flags = words[words.index("torchtitan.train") + 1 :]
    return {name: value for name, _, value in (flag.partition("=") for flag in flags)}


def test_torchtitan_carries_the_layout(tmp_path: Path) -> None:
    flags = titan_flags(run_of("llama-3.1-70b", layout=TITAN), tmp_path)
    expected = {
        "--model.flavor": "70B",
        "--parallelism.tensor_parallel_degree": "4",
        "--parallelism.pipeline_parallel_degree": "4",
        "--parallelism.pipeline_parallel_schedule": "Interleaved1F1B",
        "--parallelism.pipeline_parallel_layers_per_stage": "4",
        "--parallelism.data_parallel_shard_degree": "4",
        "--parallelism.fsdp_reshard_after_forward": "never",
        "--training.local_batch_size": "16",
        "--training.global_batch_size": "64",
        "--activation_checkpoint.mode": "full",
        "--training.dataset_path": str(tmp_path / "data"),
        "--job.dump_folder": str(tmp_path / "checkpoints"),
    }
    assert expected.items() <= flags.items()


def test_torchtitan_has_the_flags_of_its_own_configuration_for_64_gpus(tmp_path: Path) -> None:
    # pytorch/torchtitan v0.2.2: torchtitan/models/llama3/train_configs/llama3_70b.toml
    layout = ParallelLayout(tp=8, dp=8, micro_batch=8, sharding="parameters", recompute="full")
    flags = titan_flags(run_of("llama-3.1-70b", layout=layout), tmp_path)
    public = {
        "--model.name": "llama3",
        "--model.flavor": "70B",
        "--optimizer.name": "AdamW",
        "--optimizer.lr": "1.5e-4",
        "--training.local_batch_size": "8",
        "--training.seq_len": "8192",
        "--parallelism.data_parallel_replicate_degree": "1",
        "--parallelism.tensor_parallel_degree": "8",
        "--parallelism.pipeline_parallel_degree": "1",
        "--parallelism.context_parallel_degree": "1",
        "--activation_checkpoint.mode": "full",
    }
    assert public.items() <= flags.items()


@given(
    tp=st.sampled_from((1, 2, 8)),
    pp=st.sampled_from((1, 2, 4)),
    dp=st.sampled_from((1, 2, 8)),
    micro=st.sampled_from((1, 2)),
    accumulation=st.sampled_from((1, 4)),
    sharding=st.sampled_from(("none", "optimizer", "parameters", "hybrid")),
)
def test_torchtitan_degrees_multiply_to_chips(
    tp: int, pp: int, dp: int, micro: int, accumulation: int, sharding: str
) -> None:
    layout = ParallelLayout(
        tp=tp, pp=pp, dp=dp, micro_batch=micro, gradient_accumulation=accumulation,
        sharding=sharding,
    )  # fmt: skip
    run = run_of("llama-3.1-70b", layout=layout)
    flags = dict(word.partition("=")[::2] for word in torchtitan_arguments(run, 80))
    degrees = [
        int(value)
        for name, value in flags.items()
        if name.endswith("_degree") and "expert" not in name
    ]
    assert math.prod(degrees) == tp * pp * dp
    local = int(flags["--training.local_batch_size"])
    per_step = local * dp * (1 if pp > 1 else accumulation)
    assert per_step == int(flags["--training.global_batch_size"]) == run.global_batch_count


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (run_of("llama-2-7b"), "no configuration"),
        (run_of("llama-3.1-70b", is_pretraining=False), "pre-trains"),
        (run_of("llama-3.1-70b", precision="fp8"), "fp8"),
        (run_of("llama-3.1-70b", has_data=False), "data.location"),
        (run_of("llama-3.1-70b", layout=ParallelLayout(pp=3)), "do not divide"),
    ],
)
def test_torchtitan_says_what_it_cannot_run(run: TrainingRun, why: str) -> None:
    reason = torchtitan(run, "")
    assert isinstance(reason, str)
    assert why in reason

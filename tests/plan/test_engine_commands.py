"""Serving engines: supported chips, and commands with the planned settings."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.plan.disaggregation_router import router_command
from gpuyard.plan.engine_commands import Role, read_servers, servers_for, with_start_commands
from gpuyard.plan.inference.load import ServingLoad
from gpuyard.plan.inference.replica_config import ReplicaConfig, configure_replica
from gpuyard.plan.service import EngineCommand
from gpuyard.plan.serving_checkpoint import splits_blocks
from gpuyard.plan.single_pass_servers import repository_name

CATALOG = load_catalog()
LOAD = ServingLoad(
    requests_per_s=10.0,
    users=None,
    input_tokens=500.0,
    output_tokens=100.0,
    long_output_tokens=400.0,
)
# Flags as the servers' own sources spell them (see data/engines.toml).
FLAGS = {
    "vllm": {
        "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--enable-expert-parallel",
        "--quantization", "--kv-cache-dtype", "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len",
        "--gpu-memory-utilization", "--enable-prefix-caching", "--nnodes", "--node-rank", "--master-addr", "--headless",
        "--data-parallel-size-local", "--data-parallel-address", "--data-parallel-start-rank", "--dtype",
        "--distributed-executor-backend", "--kv-transfer-config",
    },
    "sglang": {
        "--model-path", "--tp-size", "--pp-size", "--dp-size", "--enable-dp-attention", "--ep-size", "--quantization",
        "--kv-cache-dtype", "--max-running-requests", "--chunked-prefill-size", "--context-length",
        "--mem-fraction-static", "--nnodes", "--dist-init-addr", "--node-rank", "--dtype",
        "--disaggregation-mode", "--disaggregation-transfer-backend",
    },
    "tensorrt-llm": {
        "--tp_size", "--pp_size", "--ep_size", "--max_batch_size", "--max_num_tokens", "--max_seq_len",
        "--kv_cache_free_gpu_memory_fraction", "--extra_llm_api_options", "--ntasks", "--mpi",
    },
}  # fmt: skip


def engine(
    model: str = "llama-3-70b", machines: int = 1, role: Role = "both", **named: object
) -> EngineCommand:
    wanted = ReplicaConfig(**{"machine": "a3-ultragpu-8g", "tp": 8, "weights": "fp8", **named})  # type: ignore[arg-type]
    found = configure_replica(wanted, CATALOG.model(model), LOAD, CATALOG)
    assert not isinstance(found, Infeasible), str(found)
    machine, replica = found
    chip = CATALOG.chip(machine.chip or "")
    return with_start_commands(
        replica, CATALOG.model(model), chip, 4000.0, machines, prefix_caching=True, role=role
    )


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("kv", ["bf16", "fp8"])
def test_commands_use_documented_flags(name: str, kv: str) -> None:
    plain = engine(engine=name, kv=kv)
    wide = engine(
        "deepseek-r1", 2, engine=name, kv=kv, tp=2, ep=16, attention_dp=8, weights="fp8-block"
    )
    deep = engine(machines=2, engine=name, kv=kv, pp=2)
    for found in (plain, wide, deep):
        for line in found.command:
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", line)) <= FLAGS[name], line


def test_vllm_command_has_planned_settings() -> None:
    found = engine(engine="vllm", kv="fp8", sequences=64)
    (line,) = found.command
    assert line == (
        "vllm serve meta-llama/Meta-Llama-3-70B --tensor-parallel-size 8 --quantization fp8 --kv-cache-dtype fp8 "
        "--max-num-seqs 64 --max-num-batched-tokens 8192 --max-model-len 4096 --gpu-memory-utilization 0.9 "
        "--enable-prefix-caching"
    )


def test_replica_on_two_machines_has_two_commands() -> None:
    first, second = engine(machines=2, engine="vllm", pp=2).command
    assert first.endswith("--nnodes 2 --master-addr $HEAD --node-rank 0")
    assert second.endswith("--node-rank 1 --headless")
    joined = engine(
        "deepseek-r1", 2, engine="vllm", tp=1, ep=16, attention_dp=16, weights="fp8-block"
    ).command
    assert "--data-parallel-size 16" in joined[0]
    assert joined[1].endswith("--data-parallel-start-rank 8 --headless")


def test_sglang_tp_size_counts_all_attention_dp_ranks() -> None:
    (line,) = engine(
        "deepseek-r1", engine="sglang", tp=2, ep=8, attention_dp=4, weights="fp8-block"
    ).command
    assert "--tp-size 8 --dp-size 4 --enable-dp-attention --ep-size 8" in line


def test_command_uses_half_on_chip_without_bf16() -> None:
    (line,) = engine("llama-3.2-3b", machine="n1-1xt4", tp=1, weights="bf16", engine="vllm").command
    assert "--dtype half" in line


def test_format_without_a_published_checkpoint_loads_the_users_own() -> None:
    narrow = engine(machine="a4-highgpu-8g", weights="nvfp4")
    assert narrow.checkpoint == "$CHECKPOINT"
    assert "quantise your own" in narrow.note
    online = engine(engine="vllm")
    assert "--quantization fp8" in online.command[0]
    assert online.load_bytes == pytest.approx(2 * CATALOG.model("llama-3-70b").parameters_count)


@pytest.mark.parametrize(
    ("model", "weights", "name", "repository", "online"),
    [
        ("llama-3.3-70b", "int8", "vllm", "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", False),
        ("llama-3.3-70b", "int8", "tensorrt-llm", None, False),
        ("llama-3.3-70b", "fp8", "tensorrt-llm", "nvidia/Llama-3.3-70B-Instruct-FP8", False),
        ("llama-3.1-8b", "bf16", "vllm", "meta-llama/Llama-3.1-8B-Instruct", False),
        ("qwen3-235b-a22b", "fp8-block", "sglang", "Qwen/Qwen3-235B-A22B-FP8", False),
        ("deepseek-r1", "fp8-block", "vllm", "deepseek-ai/DeepSeek-R1", False),
        ("gemma-2-9b", "fp8", "vllm", "google/gemma-2-9b-it", True),
    ],
)
def test_engine_loads_the_published_checkpoint(
    model: str, weights: str, name: str, repository: str | None, online: bool
) -> None:
    server = next(item for item in read_servers() if item.name == name)
    loaded = server.checkpoint(CATALOG.model(model), weights, CATALOG.checkpoints)
    assert (loaded.repository if loaded else None) == repository
    assert loaded is None or loaded.online == online


def test_attention_dp_of_tensorrt_llm_is_all_or_nothing() -> None:
    servers = {item.name: item for item in read_servers()}
    mixed = ReplicaLayout(tp=2, ep=4, attention_dp=2)
    assert not servers["tensorrt-llm"].runs_layout(mixed)
    assert servers["tensorrt-llm"].runs_layout(ReplicaLayout(tp=1, ep=8, attention_dp=8))
    assert servers["vllm"].runs_layout(mixed)


def test_vendor_minimum_limits_the_replica() -> None:
    server = next(item for item in read_servers() if item.name == "tensorrt-llm")
    model = CATALOG.model("deepseek-r1")
    eight_bits = server.checkpoint(model, "fp8-block", CATALOG.checkpoints)
    four_bits = server.checkpoint(model, "nvfp4", CATALOG.checkpoints)
    assert eight_bits is not None
    assert four_bits is not None
    assert eight_bits.minimum_chips("tensorrt-llm", "h200-sxm") == 8
    assert eight_bits.minimum_chips("tensorrt-llm", "h100-sxm") == 16
    assert eight_bits.minimum_chips("tensorrt-llm", "b200") == 1  # the vendor states none
    assert eight_bits.minimum_chips("vllm", "h200-sxm") == 1
    assert four_bits.minimum_chips("tensorrt-llm", "b200") == 4


@pytest.mark.parametrize(
    ("model", "weights", "gated"),
    [
        ("llama-3.1-8b", "bf16", True),
        ("llama-3.1-8b", "int8", False),  # quantised by others, without a gate
        ("gemma-2-9b", "fp8", True),  # quantised online, from the gated repository
        ("qwen3-8b", "bf16", False),
    ],
)
def test_start_command_knows_whether_the_checkpoint_is_gated(
    model: str, weights: str, gated: bool
) -> None:
    server = next(item for item in read_servers() if item.name == "vllm")
    loaded = server.checkpoint(CATALOG.model(model), weights, CATALOG.checkpoints)
    assert loaded is not None
    assert loaded.gated == gated


def test_layout_that_cuts_quantised_blocks_is_not_planned() -> None:
    model = CATALOG.model("qwen3-235b-a22b")  # experts of 1,536: 192 per rank of eight
    assert splits_blocks(model, "fp8-block", ReplicaLayout(tp=8))
    assert not splits_blocks(model, "fp8-block", ReplicaLayout(tp=4))
    assert not splits_blocks(model, "fp8-block", ReplicaLayout(tp=8, ep=8))


def test_servers_for_chip() -> None:
    def names(chip: str) -> list[str]:
        return [server.name for server in servers_for(CATALOG.chip(chip))]

    assert names("h100-sxm") == ["vllm", "sglang", "tensorrt-llm"]
    assert names("mi300x") == ["vllm", "sglang"]
    assert names("t4") == ["vllm", "sglang"]
    assert names("tpu-v6e") == ["vllm-tpu"]
    assert names("tpu-v5p") == ["jetstream"]
    assert names("xeon-sapphire-rapids") == ["vllm-cpu"]
    for server in read_servers():
        assert server.source


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
def test_disaggregated_commands_enable_kv_transfer(name: str) -> None:
    lines = {}
    for role in ("prefill", "decode"):
        (lines[role],) = engine(engine=name, kv="fp8", role=role).command  # type: ignore[arg-type]
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", lines[role])) <= FLAGS[name]
        assert "nixl" in lines[role].lower()
    assert lines["prefill"] != lines["decode"]
    assert engine(engine=name, kv="fp8").command[0] not in lines.values()


def test_vllm_kv_transfer_config_names_role() -> None:
    for role, word in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        (line,) = engine(engine="vllm", role=role).command  # type: ignore[arg-type]
        words = shlex.split(line)
        told = json.loads(words[words.index("--kv-transfer-config") + 1])
        assert told == {"kv_connector": "NixlConnector", "kv_role": word}


def test_tensorrt_llm_disaggregation_uses_yaml(tmp_path: Path) -> None:
    for role in ("prefill", "decode"):
        (line,) = engine(engine="tensorrt-llm", kv="fp8", role=role).command  # type: ignore[arg-type]
        subprocess.run(["bash", "-c", line.partition(" && ")[0]], cwd=tmp_path, check=True)
        told = yaml.safe_load((tmp_path / f"{role}.yaml").read_text(encoding="utf-8"))
        assert told["cache_transceiver_config"] == {"backend": "NIXL", "max_tokens_in_buffer": 4096}
        assert told["kv_cache_config"] == {"dtype": "fp8"}
        assert ("disable_overlap_scheduler" in told) == (role == "prefill")


def test_router_commands_list_every_replica(tmp_path: Path) -> None:
    pools = {"PREFILL": "a:1 b:2", "DECODE": "c:3", "PATH": "/usr/bin:/bin"}
    for name in ("vllm", "sglang"):
        line = (
            router_command(name, 2, 1)
            .replace("python -m sglang_router.launch_router", "echo")
            .replace("vllm-router", "echo")
        )
        told = subprocess.run(
            ["bash", "-c", line], env=pools, capture_output=True, text=True, check=True
        ).stdout
        assert "--prefill http://a:1 --prefill http://b:2 --decode http://c:3" in told
    line = router_command("tensorrt-llm", 2, 1).partition(" && ")[0]
    subprocess.run(["bash", "-c", line], env=pools, cwd=tmp_path, check=True)
    told = yaml.safe_load((tmp_path / "disagg.yaml").read_text(encoding="utf-8"))
    assert told["context_servers"] == {"num_instances": 2, "urls": ["a:1", "b:2"]}
    assert told["generation_servers"] == {"num_instances": 1, "urls": ["c:3"]}


HOSTILE = "org/it's $(touch PWNED); touch PWNED #`touch PWNED`"


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("role", ["both", "prefill"])
def test_name_of_a_checkpoint_stays_one_word_of_the_shell(
    name: str, role: Role, tmp_path: Path
) -> None:
    model = dataclasses.replace(CATALOG.model("llama-3-70b"), name=HOSTILE, aliases=())
    wanted = ReplicaConfig(machine="a3-ultragpu-8g", tp=8, weights="bf16", engine=name)
    configured = configure_replica(wanted, model, LOAD, CATALOG)
    assert not isinstance(configured, Infeasible), str(configured)
    machine, replica = configured
    chip = CATALOG.chip(machine.chip or "")
    started = with_start_commands(replica, model, chip, 4000.0, 2, prefix_caching=True, role=role)
    assert started.checkpoint == HOSTILE
    programs = ("vllm", "python", "trtllm-serve", "srun")
    stubs = "".join(f'{program}() {{ printf "%s\\n" "$@"; }}\n' for program in programs)
    for line in started.command:
        script = f"HEAD=h ADDRESS=a\n{stubs}{line}\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert HOSTILE in done.stdout.splitlines()
    assert not (tmp_path / "PWNED").exists()


def test_model_repository_of_triton_has_a_plain_name() -> None:
    model = dataclasses.replace(CATALOG.models[0], name=f"../{HOSTILE}")
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", repository_name(model))

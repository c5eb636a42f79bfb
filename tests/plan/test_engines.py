"""Serving engines: which run on a chip, and that a command says what was planned."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from gpuyard.catalog import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.engines import Role, read_servers, servers_for, started
from gpuyard.plan.inference import Load
from gpuyard.plan.inference.configured import Named, configured
from gpuyard.plan.pool_router import router
from gpuyard.plan.service import Engine

CATALOG = load_catalog()
LOAD = Load(requests_per_s=10.0, users=None, input_tokens=500.0, output_tokens=100.0, long_output_tokens=400.0)
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


def engine(model: str = "llama-3-70b", machines: int = 1, role: Role = "both", **named: object) -> Engine:
    wanted = Named(**{"machine": "a3-ultragpu-8g", "tp": 8, "weights": "fp8", **named})  # type: ignore[arg-type]
    found = configured(wanted, CATALOG.model(model), LOAD, CATALOG)
    assert not isinstance(found, Infeasible), str(found)
    machine, replica = found
    chip = CATALOG.chip(machine.chip or "")
    return started(replica, CATALOG.model(model), chip, 4000.0, machines, prefix_caching=True, role=role)


@pytest.mark.parametrize("name", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("kv", ["bf16", "fp8"])
def test_commands_use_flags_that_exist(name: str, kv: str) -> None:
    plain = engine(engine=name, kv=kv)
    wide = engine("deepseek-r1", 2, engine=name, kv=kv, tp=2, ep=16, attention_dp=8, weights="fp8-block")
    deep = engine(machines=2, engine=name, kv=kv, pp=2)
    for found in (plain, wide, deep):
        for line in found.command:
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", line)) <= FLAGS[name], line


def test_vllm_says_what_was_planned() -> None:
    found = engine(engine="vllm", kv="fp8", sequences=64)
    (line,) = found.command
    assert line == (
        "vllm serve meta-llama/Meta-Llama-3-70B --tensor-parallel-size 8 --quantization fp8 --kv-cache-dtype fp8 "
        "--max-num-seqs 64 --max-num-batched-tokens 8192 --max-model-len 4096 --gpu-memory-utilization 0.9 "
        "--enable-prefix-caching"
    )


def test_a_replica_of_two_machines_has_two_commands() -> None:
    first, second = engine(machines=2, engine="vllm", pp=2).command
    assert first.endswith("--nnodes 2 --master-addr $HEAD --node-rank 0")
    assert second.endswith("--node-rank 1 --headless")
    joined = engine("deepseek-r1", 2, engine="vllm", tp=1, ep=16, attention_dp=16, weights="fp8-block").command
    assert "--data-parallel-size 16" in joined[0]
    assert joined[1].endswith("--data-parallel-start-rank 8 --headless")


def test_dp_attention_counts_all_ranks() -> None:
    (line,) = engine("deepseek-r1", engine="sglang", tp=2, ep=8, attention_dp=4, weights="fp8-block").command
    assert "--tp-size 8 --dp-size 4 --enable-dp-attention --ep-size 8" in line


def test_half_precision_where_there_is_no_bf16() -> None:
    (line,) = engine("llama-3.2-3b", machine="n1-1xt4", tp=1, weights="bf16", engine="vllm").command
    assert "--dtype half" in line


def test_checkpoints_that_have_to_be_made_are_said() -> None:
    assert "needs a checkpoint quantised to NVFP4" in engine(machine="a4-highgpu-8g", weights="nvfp4").note
    assert "needs" not in engine(engine="vllm").note


def test_servers_by_chip() -> None:
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
def test_both_pools_are_told_to_hand_caches_over(name: str) -> None:
    lines = {}
    for role in ("prefill", "decode"):
        (lines[role],) = engine(engine=name, kv="fp8", role=role).command  # type: ignore[arg-type]
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", lines[role])) <= FLAGS[name]
        assert "nixl" in lines[role].lower()
    assert lines["prefill"] != lines["decode"]
    assert engine(engine=name, kv="fp8").command[0] not in lines.values()


def test_vllm_pools_say_their_role_in_json() -> None:
    for role, word in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        (line,) = engine(engine="vllm", role=role).command  # type: ignore[arg-type]
        words = shlex.split(line)
        told = json.loads(words[words.index("--kv-transfer-config") + 1])
        assert told == {"kv_connector": "NixlConnector", "kv_role": word}


def test_tensorrt_llm_pools_are_configured_in_yaml(tmp_path: Path) -> None:
    for role in ("prefill", "decode"):
        (line,) = engine(engine="tensorrt-llm", kv="fp8", role=role).command  # type: ignore[arg-type]
        subprocess.run(["bash", "-c", line.partition(" && ")[0]], cwd=tmp_path, check=True)
        told = yaml.safe_load((tmp_path / f"{role}.yaml").read_text(encoding="utf-8"))
        assert told["cache_transceiver_config"] == {"backend": "NIXL", "max_tokens_in_buffer": 4096}
        assert told["kv_cache_config"] == {"dtype": "fp8"}
        assert ("disable_overlap_scheduler" in told) == (role == "prefill")


def test_routers_know_every_replica(tmp_path: Path) -> None:
    pools = {"PREFILL": "a:1 b:2", "DECODE": "c:3", "PATH": "/usr/bin:/bin"}
    for name in ("vllm", "sglang"):
        line = (
            router(name, 2, 1).replace("python -m sglang_router.launch_router", "echo").replace("vllm-router", "echo")
        )
        told = subprocess.run(["bash", "-c", line], env=pools, capture_output=True, text=True, check=True).stdout
        assert "--prefill http://a:1 --prefill http://b:2 --decode http://c:3" in told
    line = router("tensorrt-llm", 2, 1).partition(" && ")[0]
    subprocess.run(["bash", "-c", line], env=pools, cwd=tmp_path, check=True)
    told = yaml.safe_load((tmp_path / "disagg.yaml").read_text(encoding="utf-8"))
    assert told["context_servers"] == {"num_instances": 2, "urls": ["a:1", "b:2"]}
    assert told["generation_servers"] == {"num_instances": 1, "urls": ["c:3"]}

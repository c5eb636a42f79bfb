"""Readers of switch configurations, site files, measured files and cluster states, as targets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from gpuyard.catalog.load import load_catalog

from . import mutations
from .fuzz_target import FuzzTarget, target

CATALOG = load_catalog()
OPERATING_SYSTEMS = {
    "Junos configuration": ("qfx5240-64od", "junos", "junos.conf", ".conf"),
    "EOS configuration": ("7060x6-64pe", "eos", "eos.cfg", ".cfg"),
    "NX-OS configuration": ("n9364e-sg2", "nxos", "nxos.cfg", ".cfg"),
    "SONiC configuration": ("sn5600", "sonic", "config_db.json", ".json"),
    "NVUE configuration": ("sn5600", "cumulus", "startup.yaml", ".yaml"),
    "FRR configuration": ("qfx5240-64od", "frr", "frr.conf", ".conf"),
}
SITE = b"""
management_prefix: 10.250.0.0/22
gateway: 10.250.0.1
ntp_servers: [10.0.0.1]
ssh_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN3 ops]
ztp_url: http://10.250.0.2
"""
SLURM_NODES = b"""NodeName=n1 Arch=x86_64 Gres=gpu:h200:8(S:0-1) Partitions=all State=IDLE Weight=1
NodeName=n2 Arch=x86_64 Gres=gpu:h200:8(S:0-1) Partitions=all State=IDLE Weight=1
"""
NCCL_TESTS = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
{ranks}
#
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1   6500.0  190.00  356.00      0
  8589934592    2147483648     float     sum      -1  50000.0  204.00  383.00      0
# Out of bounds values : 0 OK
"""
RANKS = "\n".join(
    f"#  Rank {rank:2} Group  0 Pid  1{rank} on  node{rank // 8} device {rank % 8:2}"
    f" [0000:{rank % 8:02}:00] NVIDIA H100 80GB HBM3"
    for rank in range(16)
)
MEGATRON_LOG = """------------------------ arguments ------------------------
  context_parallel_size ........................... 1
  fp8 ............................................. None
  ffn_hidden_size ................................. 14336
  global_batch_size ............................... 64
  hidden_size ..................................... 4096
  micro_batch_size ................................ 1
  num_attention_heads ............................. 32
  num_layers ...................................... 32
  num_query_groups ................................ 8
  padded_vocab_size ............................... 128256
  pipeline_model_parallel_size .................... 1
  seq_length ...................................... 8192
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 2
  world_size ...................................... 8
""" + "".join(
    f" [2026-11-18] iteration {step:8}/ 1000 | elapsed time per iteration (ms): 4500.0 |\n"
    for step in range(1, 30)
)
VLLM_BENCHMARK: dict[str, object] = {
    "backend": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 160,
    "completed": 160,
    "request_rate": "inf",
    "max_concurrency": 16,
    "total_input_tokens": 160 * 1024,
    "total_output_tokens": 160 * 256,
    "output_throughput": 2000.0,
    "mean_ttft_ms": 100.0,
    "mean_tpot_ms": 8.0,
    "chip": "h100-sxm",
    "version": "0.19.0",
}


@cache
def _design(switch: str, os: str) -> Path:
    from gpuyard.cli.main import main

    path = Path(_FOLDER.name) / f"{os}.json"
    words = ["fabric", "design", "--gpus", "16", "--switch", switch, "--os", os, "-o", str(path)]
    assert main([*words, "--json"]) == 0
    return path


_FOLDER = tempfile.TemporaryDirectory(prefix="gpuyard-fuzz-designs-")


def _rendered(switch: str, os: str, name: str) -> Callable[[], tuple[bytes, ...]]:
    def seeds() -> tuple[bytes, ...]:
        from gpuyard.app.fabric import read_fabric
        from gpuyard.fabric.render.fabric_files import render

        files = render(read_fabric(_design(switch, os)), CATALOG)
        return (next(file.text for file in files if file.path.endswith(name)).encode(),)

    return cache(seeds)


def _audit(path: Path) -> object:
    from gpuyard.app.fabric_configs import audit_files

    return audit_files([path])


def _read_site(path: Path) -> object:
    from gpuyard.app.fabric import read_fabric, read_site

    return read_site(path, read_fabric(_design("qfx5240-64od", "junos")))


def _calibrate(path: Path) -> object:
    from gpuyard.app.calibrate_files import CalibrationInput, calibrate_files
    from gpuyard.document.read import read_text
    from gpuyard.perf.profiles import find_profile

    given = CalibrationInput(
        paths=(path,),
        texts=(read_text(path),),
        name="own",
        base=find_profile("megatron-bridge-26.06"),
        catalog=CATALOG,
        settings={"model": "llama-3.1-8b", "chip": "h100-sxm"},
        network="InfiniBand 8x400 Gb/s",
    )
    return calibrate_files(given)


def _admissions(path: Path) -> object:
    from gpuyard.app.preflight import admissions_of
    from gpuyard.document.read import read_text

    return list(admissions_of((), read_text(path)))


def _text(text: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: (text.encode(),)


DEVICE_TARGETS: tuple[FuzzTarget, ...] = (
    *(
        target(name, suffix, _rendered(switch, os, file), mutations.plain_text_mutation, _audit)
        for name, (switch, os, file, suffix) in OPERATING_SYSTEMS.items()
    ),
    target("site", ".yaml", lambda: (SITE,), mutations.yaml_mutation, _read_site),
    target("nccl-tests output", ".txt", _text(NCCL_TESTS.format(ranks=RANKS)), mutations.plain_text_mutation, _calibrate),
    target("training log", ".log", _text(MEGATRON_LOG), mutations.plain_text_mutation, _calibrate),
    target("vLLM benchmark", ".json", _text(json.dumps(VLLM_BENCHMARK)), mutations.json_mutation, _calibrate),
    target("Slurm nodes", ".txt", lambda: (SLURM_NODES,), mutations.plain_text_mutation, _admissions),
)  # fmt: skip

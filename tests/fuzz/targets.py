"""Every reader of files as a target: seed files, mutations and the call that reads them."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from gpuyard.catalog.load import load_catalog

from . import mutations
from .device_targets import DEVICE_TARGETS
from .fuzz_target import FuzzTarget, target

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CATALOG = load_catalog()


def _files(*patterns: str) -> Callable[[], tuple[bytes, ...]]:
    def seeds() -> tuple[bytes, ...]:
        paths = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        assert paths, patterns
        return tuple(path.read_bytes() for path in paths)

    return seeds


WORKLOADS = _files("examples/[!i]*.yaml", "examples/inference*s.yaml", "examples/*/workload.yaml")
PIPELINES = _files("examples/quickstart/workload.yaml", "examples/own-script-slurm/workload.yaml")


def _read_workload(path: Path) -> object:
    from gpuyard.workload.read import read_workload

    return read_workload(path, CATALOG)


def _read_pipeline(path: Path) -> object:
    from gpuyard.app.stages import read_stages

    return read_stages(path)


def _read_data_spec(path: Path) -> object:
    from gpuyard.app.data import read_data

    return read_data(path)


@cache
def _fabric_seed() -> bytes:
    from gpuyard.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fabric.json"
        words = ["fabric", "design", "--gpus", "16", "--switch", "qfx5240-64od", "-o", str(path)]
        assert main([*words, "--json"]) == 0
        return path.read_bytes()


def _read_fabric(path: Path) -> object:
    from gpuyard.app.fabric import read_fabric, verify_cabling

    return verify_cabling(read_fabric(path), CATALOG)


def _render_fabric(path: Path) -> object:
    from gpuyard.app.fabric import read_fabric
    from gpuyard.fabric.render.fabric_files import render

    return list(render(read_fabric(path), CATALOG))


CABLES = b"""device_a,port_a,device_b,port_b,speed
server-1,eth0,leaf-1,et-0/0/1,400Gbps
server-1,eth1,leaf-2,et-0/0/1,400Gbps
leaf-1,et-0/0/32,spine-1,et-0/0/1,400Gbps
leaf-2,et-0/0/32,spine-1,et-0/0/2,400Gbps
"""


def _read_cables(path: Path) -> object:
    from gpuyard.app.fabric import import_files

    return import_files([path])


def _read_traffic(path: Path) -> object:
    from gpuyard.simulate.run_traffic import read_traffic

    return read_traffic(path, 1e6)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _chakra_seed() -> tuple[bytes, ...]:
    # Length-prefixed protobuf messages: metadata, then an all-reduce (type 7) of 1 MB.
    attributes = (("comm_type", 0), ("comm_size", 1_000_000))
    node = _field(1, 1) + _field(2, b"all-reduce") + _field(3, 7)
    for name, value in attributes:
        node += _field(10, _field(1, name.encode()) + _field(9, value))
    return (b"".join(_varint(len(part)) + part for part in (_field(1, b"0.0.4"), node)),)


def _read_chakra(path: Path) -> object:
    """Read the trace of rank 0 next to a sound one of rank 1."""
    from gpuyard.simulate.run_traffic import read_traffic

    path.with_name(path.name.replace(".0.et", ".1.et")).write_bytes(_chakra_seed()[0])
    return read_traffic(path)


def _read_hf_config(path: Path) -> object:
    from gpuyard.catalog.huggingface.read import read_config

    return read_config(path)


HF_CONFIG = json.dumps(
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
).encode()

CATALOG_LAYER = b"""
sources:
  contract: {title: Framework agreement, url: "https://intranet.example/4711", date: 2026-09-01}
prices:
  google/us-central1/a3-ultragpu-8g:
    provider: google
    region: us-central1
    machine: a3-ultragpu-8g
    date: 2026-09-01
    source: [contract]
    spot_usd_per_hour: "$31.20/h"
    committed_1y_usd_per_hour: "$42/h"
"""


def _read_catalog(path: Path) -> object:
    return load_catalog([path])


def _read_trace(path: Path) -> object:
    from gpuyard.simulate.serving.trace import read_trace

    return read_trace(path)


@cache
def _blueprint_seed() -> bytes:
    from gpuyard.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "deploy"
        words = ["provision", str(EXAMPLES / "pretraining.yaml"), "--on", "gke", "-o", str(out)]
        assert main([*words, "--json"]) == 0
        return (out / "blueprint.json").read_bytes()


def _read_blueprint(path: Path) -> object:
    from gpuyard.app.provision import read_blueprint

    return read_blueprint(path)


def _lint(path: Path) -> object:
    from gpuyard.app.lint import lint_files

    return lint_files([path], CATALOG)


SBATCH = b"""#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=12:00:00
set -euo pipefail
srun torchrun --nnodes 4 --nproc-per-node 8 train.py
"""


def _read_training_csv(path: Path) -> object:
    from gpuyard.app.accuracy import read_training_runs

    return read_training_runs(path, CATALOG)


def _read_serving_csv(path: Path) -> object:
    from gpuyard.app.accuracy_serving import read_serving_runs

    return read_serving_runs(path, CATALOG)


def _read_collectives_csv(path: Path) -> object:
    from gpuyard.app.accuracy import read_rows
    from gpuyard.simulate.collectives.published_collectives import read_measured

    columns = "system, fabric, nodes, gpus, collective, size_bytes, time_us, busbw_GBps, note"
    return read_measured(read_rows(path, set(columns.split(", ")), "collectives", columns))


TABLE = b"id,x,label,when\n1,0.5,a,2026-01-01\n2,,b,2026-01-02\n3,7.25,a,\n4,1e3,b,2026-01-04\n"
LINES = b'{"id": 1, "x": 0.5, "label": "a"}\n{"id": 2, "x": null, "label": "b"}\n'


def _columnar(kind: str) -> Callable[[], tuple[bytes, ...]]:
    def seeds() -> tuple[bytes, ...]:
        import io

        import polars as pl

        frame = pl.read_csv(TABLE)
        out = io.BytesIO()
        frame.write_parquet(out) if kind == "parquet" else frame.write_ipc(out)
        return (out.getvalue(),)

    return seeds


def _read_data(path: Path) -> object:
    from gpuyard.datasets.source.open import open_source
    from gpuyard.datasets.source.partitions import read_partition
    from gpuyard.datasets.spec import DataSpec

    with tempfile.TemporaryDirectory() as work:
        spec = DataSpec(source=str(path))
        source = open_source(spec, base=path.parent, work=Path(work), partition_bytes=1e6)
        columns = list(source.schema)
        return [read_partition(part, source.file_format, columns) for part in source.partitions]


@cache
def _deployment_files() -> dict[str, str]:
    from gpuyard.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "deploy"
        words = ["provision", str(EXAMPLES / "pretraining.yaml"), "--on", "slurm", "-o", str(out)]
        assert main([*words, "--json"]) == 0
        return {file.name: file.read_text(encoding="utf-8") for file in out.iterdir()}


def _read_deployment(path: Path) -> object:
    from gpuyard.provision.apply.rendered_deployment import read_rendered_deployment

    text = path.read_text(encoding="utf-8", errors="replace")
    files = _deployment_files() | {"deployment.json": text}
    return read_rendered_deployment(files, str(path.parent))


def _read_completion(path: Path) -> object:
    from gpuyard.serving.completion_requests import read_completion

    return read_completion(path.read_bytes())


def _evidence(path: Path) -> object:
    from gpuyard.app.provision import read_evidence

    return read_evidence(path)


TARGETS = (
    *DEVICE_TARGETS,
    target("workload", ".yaml", WORKLOADS, mutations.yaml_mutation, _read_workload, 6),
    target("pipeline", ".yaml", PIPELINES, mutations.yaml_mutation, _read_pipeline, 2),
    target(
        "data spec",
        ".yaml",
        _files("examples/quickstart/workload.yaml"),
        mutations.yaml_mutation,
        _read_data_spec,
        2,
    ),
    target("fabric", ".json", lambda: (_fabric_seed(),), mutations.json_mutation, _read_fabric),
    target(
        "fabric rendering",
        ".json",
        lambda: (_fabric_seed(),),
        mutations.json_mutation,
        _render_fabric,
    ),
    target("cabling", ".csv", lambda: (CABLES,), mutations.csv_mutation, _read_cables, 2),
    target(
        "htsim matrix",
        ".cm",
        _files("examples/*.cm"),
        mutations.plain_text_mutation,
        _read_traffic,
        2,
    ),
    target(
        "MSCCL", ".xml", _files("examples/*.xml"), mutations.plain_text_mutation, _read_traffic, 2
    ),
    target("Chakra", ".0.et", _chakra_seed, mutations.bytes_mutation, _read_chakra, 2),
    target(
        "Hugging Face config", ".json", lambda: (HF_CONFIG,), mutations.json_mutation,
        _read_hf_config, 2,
    ),
    target("catalog layer", ".yaml", lambda: (CATALOG_LAYER,), mutations.yaml_mutation, _read_catalog),
    target(
        "request trace",
        ".csv",
        _files("examples/inference-trace.csv"),
        mutations.csv_mutation,
        _read_trace,
        2,
    ),
    target("blueprint", ".json", lambda: (_blueprint_seed(),), mutations.json_mutation, _read_blueprint, 2),
    target("deployment", ".json", lambda: (_deployment_files()["deployment.json"].encode(),), mutations.json_mutation, _read_deployment, 2),
    target("batch script", ".sbatch", lambda: (SBATCH,), mutations.plain_text_mutation, _lint),
    target("evidence", ".json", lambda: (b'{"findings": [{"rule": "x", "what": "y"}]}',), mutations.json_mutation, _evidence),
    target("training CSV", ".csv", _files("tests/accuracy/training_runs.csv"), mutations.csv_mutation, _read_training_csv),
    target("serving CSV", ".csv", _files("tests/accuracy/inference_runs.csv"), mutations.csv_mutation, _read_serving_csv),
    target("collectives CSV", ".csv", _files("tests/simulate/collectives/nccl_rows.csv"), mutations.csv_mutation, _read_collectives_csv),
    target("CSV data", ".csv", lambda: (TABLE,), mutations.csv_mutation, _read_data),
    target("JSON lines", ".jsonl", lambda: (LINES,), mutations.plain_text_mutation, _read_data),
    target("Parquet data", ".parquet", _columnar("parquet"), mutations.bytes_mutation, _read_data),
    target("Arrow data", ".arrow", _columnar("arrow"), mutations.bytes_mutation, _read_data),
    target("completion request", ".json", lambda: (b'{"model": "lm", "prompt": "a", "max_tokens": 5, "temperature": 0.5}',), mutations.json_mutation, _read_completion, 2),
)  # fmt: skip


def inputs(target: FuzzTarget, seed: int) -> bytes:
    """Return the mutated file of one seed number."""
    rng = random.Random(f"{target.name} {seed}")
    return target.mutate(rng, rng.choice(target.seeds()))

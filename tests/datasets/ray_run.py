"""Compare Ray with the local engine, in a separate process: Ray's daemons end with the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import ray
from tests.datasets.corpus import documents, edited
from tests.datasets.tables import mixed_table, prepare_yaml

from gpuyard.datasets.data_pass import DataPass, PartitionTask, Result
from gpuyard.datasets.engines import ray as adapter
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.engines.ray import RayDataEngine
from gpuyard.datasets.execute import execute
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.datasets.text.steps import NearDuplicates
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.errors import InputError

TEXT = """
source: table.parquet
label: label
id: id
steps:
- deduplicate: {columns: [n, code, city]}
- impute: {columns: [a], value: mean}
- impute: {columns: [b], value: median, by: code}
- clip: {columns: [a, b], lower: -1, upper: 9}
- zscore: {columns: [a, b]}
- python:
    file: steps.py
    function: add_product
    columns: [a, b]
    adds: {product: float}
    code: "def add_product(rows): return rows['a'] * rows['b']"
- onehot: {columns: [city]}
- target: {columns: [code]}
split: {test: 0.2, stratify: true, seed: 1}
output: {precision: float64}
"""


def dies_once(data_pass: DataPass, task: PartitionTask) -> Result:
    """Execute a partition in a process that dies the first time."""
    mark = Path(os.environ["GPUYARD_TEST_MARK"])
    if data_pass.name == "statistics" and not mark.exists():
        mark.touch()
        os._exit(1)
    return execute(data_pass, task)


def _compare_texts(folder: Path) -> None:
    """Compare near duplicates, a trained tokenizer and packed tokens on both engines."""
    rows = [
        text
        for number, text in enumerate(documents()[:150])
        for text in (text, edited(text, 0.003, number))
    ]
    pl.DataFrame({"text": rows * 20, "id": range(len(rows) * 20)}).write_parquet(
        folder / "texts.parquet", row_group_size=300
    )
    steps = (
        StepSpec(near_duplicates=NearDuplicates()),
        StepSpec(tokenise=Tokenise(vocabulary=400, sequence_tokens=64)),
    )
    spec = DataSpec(
        source="texts.parquet", id="id", steps=steps, split=SplitSpec(test_ratio=0.2, seed=1)
    )
    engines = {"local": LocalDataEngine(in_flight=1), "ray": RayDataEngine()}
    local, remote = (
        prepare(spec, base=folder, out=folder / f"texts-{name}", engine=engine, memory_bytes=431e6)
        for name, engine in engines.items()
    )
    assert local.manifest.lineage.partitions == remote.manifest.lineage.partitions > 1
    assert 0 < local.manifest.rows_out == remote.manifest.rows_out < len(rows)
    for split in ("train", "test"):
        one, other = local.tokens(split), remote.tokens(split)
        assert len(one) == len(other) > 0
        assert all(np.array_equal(one[row], other[row]) for row in range(len(one)))


def main() -> None:
    """Compare the engines, lose a worker, read a broken file."""
    folder = Path(sys.argv[1])
    ray.init(
        address="local",
        num_cpus=2,
        log_to_driver=False,
        logging_level="error",
        include_dashboard=False,
    )
    local = prepare_yaml(
        folder, TEXT, mixed_table(60_000), name="local", engine=LocalDataEngine(in_flight=1)
    )
    remote = prepare_yaml(folder, TEXT, name="remote", engine=RayDataEngine(), memory_bytes=290e6)
    assert remote.manifest.lineage.partitions > local.manifest.lineage.partitions
    for split in ("train", "test"):
        one, other = local.table(split), remote.table(split)
        assert one.columns == other.columns
        assert one["id"].to_list() == other["id"].to_list()
        for name in ("a", "b", "code_target"):
            np.testing.assert_allclose(
                one[name].to_numpy(), other[name].to_numpy(), rtol=1e-9, atol=1e-9
            )
    _compare_texts(folder)
    mark, environment = folder / "died", adapter._environment
    adapter._environment = lambda cpus: environment(cpus) | {"GPUYARD_TEST_MARK": str(mark)}
    adapter.execute = dies_once
    lost = prepare_yaml(folder, TEXT, name="lost", engine=RayDataEngine())
    assert mark.exists()
    assert lost.table("train")["id"].to_list() == local.table("train")["id"].to_list()
    adapter.execute = execute
    data = bytearray((folder / "table.parquet").read_bytes())
    data[4:200] = np.random.default_rng(0).bytes(196)
    (folder / "broken.parquet").write_bytes(data)
    try:
        prepare_yaml(folder, "source: broken.parquet", name="broken", engine=RayDataEngine())
    except InputError as error:
        print("error:", error)
    ray.shutdown()


if __name__ == "__main__":
    main()

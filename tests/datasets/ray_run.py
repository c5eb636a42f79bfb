"""A run on Ray beside one here, in a process of its own: Ray leaves its daemons to the end of the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import ray
from tests.datasets.made import made, mixed

from gpuyard.datasets import LocalEngine, RayEngine
from gpuyard.datasets.engines import ray as adapter
from gpuyard.datasets.execute import execute
from gpuyard.datasets.job import Job, Result, Work
from gpuyard.errors import InputError

TEXT = """
source: table.parquet
label: label
id: id
steps:
- deduplicate: {columns: [n, code, city]}
- impute: {columns: [a, b], value: mean}
- clip: {columns: [a, b], lower: -1, upper: 9}
- zscore: {columns: [a, b]}
- onehot: {columns: [city]}
- target: {columns: [code]}
split: {test: 0.2, stratify: true, seed: 1}
output: {precision: float64}
"""


def dies_once(job: Job, work: Work) -> Result:
    """The real work, in a process that dies the first time."""
    mark = Path(os.environ["GPUYARD_TEST_MARK"])
    if job.name == "statistics" and not mark.exists():
        mark.touch()
        os._exit(1)
    return execute(job, work)


def main() -> None:
    """Compares the engines, loses a worker, reads a broken file."""
    folder = Path(sys.argv[1])
    ray.init(address="local", num_cpus=2, log_to_driver=False, logging_level="error", include_dashboard=False)
    here = made(folder, TEXT, mixed(60_000), name="here", engine=LocalEngine(in_flight=1))
    there = made(folder, TEXT, name="there", engine=RayEngine(), memory_bytes=290e6)
    assert there.manifest.lineage.partitions > here.manifest.lineage.partitions
    for split in ("train", "test"):
        one, other = here.table(split), there.table(split)
        assert one.columns == other.columns
        assert one["id"].to_list() == other["id"].to_list()
        for name in ("a", "b", "code_target"):
            np.testing.assert_allclose(one[name].to_numpy(), other[name].to_numpy(), rtol=1e-9, atol=1e-9)
    mark, told = folder / "died", adapter._environment
    adapter._environment = lambda cpus: told(cpus) | {"GPUYARD_TEST_MARK": str(mark)}
    adapter.execute = dies_once
    lost = made(folder, TEXT, name="lost", engine=RayEngine())
    assert mark.exists()
    assert lost.table("train")["id"].to_list() == here.table("train")["id"].to_list()
    adapter.execute = execute
    data = bytearray((folder / "table.parquet").read_bytes())
    data[4:200] = np.random.default_rng(0).bytes(196)
    (folder / "broken.parquet").write_bytes(data)
    try:
        made(folder, "source: broken.parquet", name="broken", engine=RayEngine())
    except InputError as error:
        print("named:", error)
    ray.shutdown()


if __name__ == "__main__":
    main()

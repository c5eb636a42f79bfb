"""A run on Ray beside one here, in a process of its own: Ray leaves its daemons to the end of the process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import ray
from tests.datasets.corpus import documents, edited
from tests.datasets.made import made, mixed

from gpuyard.datasets import DataSpec, LocalEngine, RayEngine, SplitSpec, Step, prepare
from gpuyard.datasets.engines import ray as adapter
from gpuyard.datasets.execute import execute
from gpuyard.datasets.job import Job, Result, Work
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


def _texts(folder: Path) -> None:
    """A corpus on both: near duplicates found over all partitions, a tokenizer learnt, the same tokens packed."""
    rows = [text for number, text in enumerate(documents()[:150]) for text in (text, edited(text, 0.003, number))]
    pl.DataFrame({"text": rows * 20, "id": range(len(rows) * 20)}).write_parquet(
        folder / "texts.parquet", row_group_size=300
    )
    steps = (Step(near_duplicates=NearDuplicates()), Step(tokenise=Tokenise(vocabulary=400, sequence_tokens=64)))
    spec = DataSpec(source="texts.parquet", id="id", steps=steps, split=SplitSpec(test_ratio=0.2, seed=1))
    engines = {"here": LocalEngine(in_flight=1), "there": RayEngine()}
    here, there = (
        prepare(spec, base=folder, out=folder / f"texts-{name}", engine=engine, memory_bytes=431e6)
        for name, engine in engines.items()
    )
    assert here.manifest.lineage.partitions == there.manifest.lineage.partitions > 1
    assert 0 < here.manifest.rows_out == there.manifest.rows_out < len(rows)
    for split in ("train", "test"):
        one, other = here.tokens(split), there.tokens(split)
        assert len(one) == len(other) > 0
        assert all(np.array_equal(one[row], other[row]) for row in range(len(one)))


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
    _texts(folder)
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

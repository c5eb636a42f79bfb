"""Runs: no row is lost, splits are exact for any partition size, killed runs resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.prepared import PreparedDataset, load_prepared
from gpuyard.errors import InputError

from .tables import mixed_table, prepare_yaml

REAL = "source: sklearn:{name}\nlabel: target\nsteps:\n- deduplicate: {{}}\n- impute: {{value: median}}\n- zscore: {{}}\nsplit: {{test: 0.2, seed: 7{more}}}\n"
CLEAN = """
source: table.parquet
label: label
id: id
steps:
- drop_nulls: {columns: [a]}
- deduplicate: {columns: [key]}
- filter: {where: "b > 1", quarantine: true}
- cast: {columns: [text], to: int}
- impute: {columns: [b], value: mean}
- zscore: {columns: [a, b]}
split: {test: 0.25, validation: 0.1, seed: 3}
"""


def dirty(rows: int, seed: int) -> pl.DataFrame:
    """Return rows of which every cleaning step drops some."""
    rng = np.random.default_rng(seed)
    return mixed_table(rows, seed).with_columns(
        pl.Series("key", rng.integers(0, max(1, rows // 2), rows)),
        pl.Series("text", rng.choice(["1", " 22 ", "x", "3.5", "-4"], rows)),
    )


def check_counts(prepared: PreparedDataset) -> None:
    """Check in = out + dropped + quarantined for every step, and the rows of all files."""
    manifest = prepared.manifest
    assert manifest.rows_in == manifest.rows_out + manifest.dropped + manifest.quarantined
    for before, after in zip(manifest.counts, manifest.counts[1:], strict=False):
        assert after.rows_in == before.rows_out
    for step in manifest.counts:
        assert step.rows_in == step.rows_out + step.dropped + step.quarantined
    assert sum(split.rows for split in manifest.splits) == manifest.rows_out
    for split in manifest.splits:
        assert split.rows == (prepared.table(split.name).height if split.shards else 0)
    assert sum(shard.rows for shard in manifest.quarantine) == manifest.quarantined


@pytest.mark.parametrize(
    ("name", "rows", "problem"),
    [
        ("iris", 150, "classification"),
        ("wine", 178, "classification"),
        ("diabetes", 442, "regression"),
        ("digits", 1797, "classification"),
    ],
)
def test_sklearn_datasets_are_prepared(name: str, rows: int, problem: str, tmp_path: Path) -> None:
    prepared = prepare_yaml(tmp_path, REAL.format(name=name, more=""))
    check_counts(prepared)
    manifest = prepared.manifest
    assert (manifest.rows_in, manifest.problem) == (rows, problem)
    assert manifest.split("test").rows == round(manifest.rows_out * 0.2)  # type: ignore[union-attr]
    arrays = prepared.arrays("train")
    assert arrays.x.dtype == np.float32
    assert arrays.x.flags["C_CONTIGUOUS"]
    assert np.isfinite(arrays.x).all()
    assert arrays.y is not None
    assert arrays.y.dtype == (np.int64 if problem == "classification" else np.float64)
    if name == "iris":
        assert manifest.dropped == 1  # iris has one row twice
        assert manifest.classes == ("0", "1", "2")


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(20, 400), seed=st.integers(0, 99))
def test_row_counts_add_up(rows: int, seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    prepared = prepare_yaml(tmp_path_factory.mktemp("run"), CLEAN, dirty(rows, seed))
    check_counts(prepared)
    assert prepared.manifest.dropped > 0
    assert prepared.manifest.quarantined > 0


def test_quarantine_holds_reasons(tmp_path: Path) -> None:
    prepared = prepare_yaml(tmp_path, CLEAN, dirty(300, 1))
    table = pl.concat(
        [pl.read_parquet(tmp_path / "out" / shard.path) for shard in prepared.manifest.quarantine]
    )
    reasons = set(table["__reason"].to_list())
    assert reasons == {"not b > 1", 'text: "x" is not int', 'text: "3.5" is not int'}
    assert table["id"].n_unique() == prepared.manifest.quarantined


def test_partition_size_does_not_change_result(tmp_path: Path) -> None:
    frame = dirty(150_000, 5)
    whole = prepare_yaml(tmp_path, CLEAN, frame, name="whole")
    small = prepare_yaml(
        tmp_path, CLEAN, name="small", memory_bytes=271e6, engine=LocalDataEngine(in_flight=2)
    )
    assert small.manifest.lineage.partitions > whole.manifest.lineage.partitions
    assert small.manifest.version == whole.manifest.version
    for split in ("train", "validation", "test"):
        one, other = whole.table(split), small.table(split)
        assert one["id"].to_list() == other["id"].to_list()
        np.testing.assert_allclose(one["a"].to_numpy(), other["a"].to_numpy(), rtol=1e-6)
    assert [count.dropped for count in whole.manifest.counts] == [
        count.dropped for count in small.manifest.counts
    ]


def test_stratified_split_is_exact(tmp_path: Path) -> None:
    prepared = prepare_yaml(tmp_path, REAL.format(name="iris", more=", stratify: true"))
    classes = prepared.table("test")["target"].value_counts().sort("target")["count"].to_list()
    assert classes == [10, 10, 10]
    again = prepare_yaml(tmp_path, REAL.format(name="iris", more=", stratify: true"), name="again")
    assert again.table("test").equals(prepared.table("test"))


def test_group_split_keeps_groups_and_time_split_goes_forward(tmp_path: Path) -> None:
    frame = mixed_table(1000).with_columns(pl.Series("g", np.arange(1000) % 37))
    by_group = prepare_yaml(
        tmp_path, "source: table.parquet\nsplit: {test: 0.3, group: g}", frame, name="group"
    )
    train, test = by_group.table("train"), by_group.table("test")
    assert not set(train["g"]) & set(test["g"])
    assert 0.2 < test.height / 1000 < 0.4
    by_time = prepare_yaml(
        tmp_path,
        "source: table.parquet\nsteps: [{drop_nulls: {columns: [when]}}]\nsplit: {test: 0.2, validation: 0.2, time: when}",
        frame,
        name="time",
    )
    last, middle, first = (by_time.table(name)["when"] for name in ("test", "validation", "train"))
    assert first.max() < middle.min() <= middle.max() < last.min()  # type: ignore[operator]
    assert last.len() / by_time.manifest.rows_out == pytest.approx(0.2, abs=0.01)


def test_finished_run_is_reused(tmp_path: Path) -> None:
    first = prepare_yaml(tmp_path, CLEAN, dirty(300, 1))
    stamp = (tmp_path / "out" / "manifest.json").stat().st_mtime_ns
    again = prepare_yaml(tmp_path, CLEAN)
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns == stamp
    assert again.manifest == first.manifest
    other = prepare_yaml(tmp_path, CLEAN.replace("b > 1", "b > 2"))
    assert other.manifest.version != first.manifest.version
    check_counts(other)


def test_folder_with_other_files_raises_input_error(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds other files"):
        prepare_yaml(tmp_path, CLEAN, dirty(100, 1))
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


SLOW = """
import sys, time
from pathlib import Path
import gpuyard.datasets.engines.local as local
from tests.datasets.tables import parse_spec
from gpuyard.datasets.engines.local import LocalDataEngine
from gpuyard.datasets.prepare import prepare
real = local.execute
def slow(data_pass, task):
    with open(sys.argv[1] + "/log", "a") as log:
        log.write(f"{data_pass.name} {task.partition.number}\\n")
    time.sleep(float(sys.argv[2]) if data_pass.name == "write" else 0)
    return real(data_pass, task)
local.execute = slow
prepare(parse_spec(Path(sys.argv[1] + "/spec.yaml").read_text()), base=Path(sys.argv[1]), out=Path(sys.argv[1]) / "out",
        engine=LocalDataEngine(in_flight=1), memory_bytes=271e6)
"""


def test_killed_run_resumes_from_finished_partitions(tmp_path: Path) -> None:
    dirty(250_000, 2).write_parquet(tmp_path / "table.parquet", row_group_size=20_000)
    (tmp_path / "spec.yaml").write_text(CLEAN)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SLOW, str(tmp_path)]
    process = subprocess.Popen([*command, "0.4"], cwd=root)
    log = tmp_path / "log"
    while not (log.exists() and log.read_text().count("write") >= 3):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out" / "manifest.json").exists()
    before = log.read_text().splitlines()
    subprocess.run([*command, "0"], cwd=root, check=True)
    after = log.read_text().splitlines()[len(before) :]
    prepared = load_prepared(tmp_path / "out")
    check_counts(prepared)
    parts = prepared.manifest.lineage.partitions
    assert parts > 4
    assert (
        len([line for line in after if line.startswith("write")]) <= parts - 2
    )  # finished partitions are not repeated
    assert not [line for line in after if line.startswith(("keys", "statistics"))]
    fresh = prepare_yaml(
        tmp_path, CLEAN, name="fresh", memory_bytes=271e6, engine=LocalDataEngine(in_flight=1)
    )
    assert fresh.table("train").equals(prepared.table("train"))
    assert [shard.sha256 for shard in fresh.manifest.splits[0].shards] == [
        shard.sha256 for shard in prepared.manifest.splits[0].shards
    ]


FULL = """
import resource, signal, sys
from pathlib import Path
from tests.datasets.tables import parse_spec
from gpuyard.datasets.prepare import prepare
from gpuyard.errors import ExternalError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    prepare(parse_spec("source: table.parquet"), base=Path(sys.argv[1]), out=Path(sys.argv[1]) / "out")
except ExternalError as error:
    print(error)
"""


def test_full_disk_raises_external_error(tmp_path: Path) -> None:
    mixed_table(50_000).write_parquet(tmp_path / "table.parquet")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cannot be written" in done.stdout
    assert "free disk space" in done.stdout
    assert not (tmp_path / "out" / "manifest.json").exists()


# peak memory of this process alone: ru_maxrss starts with that of the parent when it forked
MEASURED = """
import sys
from pathlib import Path
from tests.datasets.tables import parse_spec
from gpuyard.datasets.prepare import prepare
prepare(parse_spec(Path(sys.argv[1] + "/spec.yaml").read_text()), base=Path(sys.argv[1]), out=Path(sys.argv[1]) / "out", memory_bytes=float(sys.argv[2]))
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")))
"""


def test_large_table_stays_below_memory_limit(tmp_path: Path) -> None:
    cap = 500e6  # of which about half is the interpreter and its libraries
    rng = np.random.default_rng(0)
    block = pl.DataFrame(
        {"id": np.arange(40_000), **{f"x{at}": rng.normal(size=40_000) for at in range(80)}}
    )
    files, size = 0, 0
    (tmp_path / "raw").mkdir()
    while size < 2.5 * (cap - 250e6):
        block.with_columns(pl.col("id") + files * 39_000).write_parquet(
            tmp_path / "raw" / f"{files:03d}.parquet", compression="uncompressed"
        )
        files, size = files + 1, size + block.estimated_size()
    (tmp_path / "spec.yaml").write_text(
        "source: raw\nid: id\nsteps:\n- deduplicate: {columns: [id]}\n- clip: {columns: [x1], quantile: 0.01}\n- zscore: {}\noutput: {compression: none}"
    )
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path), str(cap)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    peak = float(done.stdout)
    prepared = load_prepared(tmp_path / "out")
    check_counts(prepared)
    assert prepared.manifest.dropped == (files - 1) * 1000
    assert peak < cap, (
        f"{peak / 1e6:.0f} MB of {cap / 1e6:.0f} MB; the table has {size / 1e6:.0f} MB"
    )


def test_too_little_memory_raises_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too little"):
        prepare_yaml(tmp_path, CLEAN, dirty(100, 1), memory_bytes=100e6)


def test_manifest_is_json_and_missing_split_raises_input_error(tmp_path: Path) -> None:
    prepared = prepare_yaml(tmp_path, CLEAN, dirty(200, 1))
    data = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert data["version"] == prepared.manifest.version
    assert data["lineage"]["spec"]["source"] == "table.parquet"
    assert not (tmp_path / "out" / ".work").exists()
    with pytest.raises(InputError, match="no split named"):
        prepared.table("holdout")
    with pytest.raises(InputError, match=r"no manifest\.json"):
        load_prepared(tmp_path)


TWICE = """
import sys
from pathlib import Path
from tests.datasets.tables import parse_spec
from gpuyard.datasets.prepare import prepare
dataset = prepare(parse_spec(sys.argv[1]), base=Path(sys.argv[2]), out=Path(sys.argv[2]) / "out", memory_bytes=300e6)
print(dataset.manifest.version, dataset.manifest.rows_out)
"""


def test_concurrent_processes_prepare_one_folder_in_turn(tmp_path: Path) -> None:
    frame = pl.concat([mixed_table(20_000)] * 10).with_columns(id=pl.int_range(200_000))
    frame.write_parquet(tmp_path / "table.parquet", row_group_size=2000)
    text = "source: table.parquet\nlabel: label\nid: id\nsteps: [{deduplicate: {columns: [id]}}, {zscore: {columns: [a]}}]\n"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", TWICE, text, str(tmp_path)]
    env = dict(os.environ, PYTHONPATH=f"{root}:{root / 'src'}")
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0, 0]
    assert len(set(outputs)) == 1
    assert outputs[0].endswith(" 200000\n")


def test_missing_source_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        prepare_yaml(tmp_path, "source: nothing.parquet")
    assert not (tmp_path / "out").exists()

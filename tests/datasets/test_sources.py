"""Sources: every format gives the same rows; what is broken is named, or put apart with the reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gpuyard.datasets import Prepared
from gpuyard.datasets.source.files import Found, fingerprint
from gpuyard.datasets.source.stage import stage
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import InputError

from .made import made, mixed

FRAME = mixed(200).select("id", "a", "n", "city", "label")


def rows(prepared: Prepared) -> pl.DataFrame:
    """The rows of a run without steps."""
    return prepared.table("train").with_columns(pl.col("a").cast(pl.Float32))


def whole() -> pl.DataFrame:
    """What every format must give."""
    return FRAME.with_columns(pl.col("a").cast(pl.Float32))


def write_zstd(path: Path, data: bytes) -> None:
    """A file packed by zstd."""
    with pa.output_stream(str(path), compression="zstd") as stream:
        stream.write(data)


@pytest.mark.parametrize(
    "name",
    ["t.parquet", "t.csv", "t.tsv", "t.jsonl", "t.arrow", "t.csv.gz", "t.jsonl.zst", "folder", "many/*.csv", "file://"],
)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    half = FRAME.height // 2
    source = name
    if name == "t.parquet":
        FRAME.write_parquet(tmp_path / name)
    elif name == "t.arrow":
        FRAME.write_ipc(tmp_path / name)
    elif name == "t.csv":
        FRAME.write_csv(tmp_path / name)
    elif name == "t.tsv":
        FRAME.write_csv(tmp_path / name, separator="\t")
    elif name == "t.jsonl":
        FRAME.write_ndjson(tmp_path / name)
    elif name == "t.csv.gz":
        (tmp_path / name).write_bytes(gzip.compress(FRAME.write_csv().encode()))
    elif name == "t.jsonl.zst":
        write_zstd(tmp_path / name, FRAME.write_ndjson().encode())
    elif name == "folder":
        (tmp_path / name).mkdir()
        FRAME.head(half).write_parquet(tmp_path / name / "1.parquet")
        FRAME.tail(half).write_parquet(tmp_path / name / "2.parquet")
        (tmp_path / name / "_SUCCESS").touch()
    elif name == "many/*.csv":
        (tmp_path / "many").mkdir()
        FRAME.head(half).write_csv(tmp_path / "many" / "1.csv")
        FRAME.tail(half).write_csv(tmp_path / "many" / "2.csv")
    else:
        FRAME.write_csv(tmp_path / "t.csv")
        source = f"file://{tmp_path}/t.csv"
    prepared = made(tmp_path, f'source: "{source}"')
    assert rows(prepared).equals(whole())
    assert prepared.manifest.quarantined == 0


def test_a_file_system_of_fsspec_is_read(tmp_path: Path) -> None:
    with fsspec.open("memory://data/t.csv", "wb") as stream:
        stream.write(FRAME.write_csv().encode())
    try:
        assert rows(made(tmp_path, "source: memory://data/t.csv")).equals(whole())
    finally:
        fsspec.filesystem("memory").rm("/data", recursive=True)


def test_chunks_end_with_whole_lines(tmp_path: Path) -> None:
    frame = pl.DataFrame({"n": range(500), "t": [f'say "{at}"\nover, {"two" * (at % 7)} lines' for at in range(500)]})
    frame.write_csv(tmp_path / "t.csv")
    found = Found(paths=(str(tmp_path / "t.csv"),), format="csv")
    done = stage(found, ReadSpec(), tmp_path / "staged", chunk_bytes=700)
    assert len(done.paths) > 5
    assert pl.read_parquet(list(done.paths)).equals(frame)


def test_mixed_types_are_put_apart(tmp_path: Path) -> None:
    lines = ["x,y", *(f"{at},{at / 2}" for at in range(20_000)), "oops,1.0", "1,2,3", "7,8.5"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    prepared = made(tmp_path, "source: t.csv")
    assert prepared.manifest.counts[0].quarantined == 2
    assert prepared.manifest.rows_in == 20_003
    assert prepared.manifest.rows_out == 20_001
    table = pl.concat([pl.read_parquet(tmp_path / "out" / shard.path) for shard in prepared.manifest.quarantine])
    assert set(table["reason"]) == {'x: "oops" is not Int64', "3 fields instead of 2"}


def test_mixed_json_is_put_apart(tmp_path: Path) -> None:
    good = [json.dumps({"x": at, "y": str(at)}) for at in range(50)]
    (tmp_path / "t.jsonl").write_text(
        "\n".join([*good, '{"x": "seven", "y": "7"}', "not json", "[1]", '{"x": 1, "z": 2}']) + "\n"
    )
    prepared = made(tmp_path, "source: t.jsonl")
    assert prepared.manifest.rows_in == 54
    assert prepared.manifest.rows_in == prepared.manifest.rows_out + prepared.manifest.quarantined
    assert prepared.manifest.quarantined >= 2


def test_broken_files_are_named(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "good.parquet")
    data = (tmp_path / "good.parquet").read_bytes()
    cases = {
        "truncated.parquet": data[: len(data) // 2],
        "noise.parquet": b"PAR1" + bytes(200) + b"PAR1",
        "empty.parquet": b"",
        "corrupt.csv.gz": gzip.compress(FRAME.write_csv().encode())[:300],
        "empty.csv": b"",
        "latin.csv": "x,name\n1,Zürich\n".encode("latin-1"),
        "empty.jsonl": b"",
        "noise.arrow": b"ARROW1" + bytes(50),
    }
    for name, contents in cases.items():
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(InputError) as caught:
            made(tmp_path, f"source: {name}", name=f"out-{name}")
        assert name in str(caught.value)
    for missing in ("nothing.parquet", "none/*.csv", "memory://nothing/here.csv"):
        with pytest.raises(InputError, match=r"no such file|no file matches"):
            made(tmp_path, f'source: "{missing}"', name="missing")


def test_a_corrupt_page_is_named(tmp_path: Path) -> None:
    mixed(5000).write_parquet(tmp_path / "t.parquet", compression="zstd")
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[4:200] = np.random.default_rng(0).bytes(196)  # the header of the first page
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"t\.parquet.*cannot be read"):
        made(tmp_path, "source: t.parquet")


def test_another_encoding_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("x,name\n1,Zürich\n".encode("latin-1"))
    prepared = made(tmp_path, "source: latin.csv\nread: {encoding: latin-1}")
    assert prepared.table("train")["name"].to_list() == ["Zürich"]


def test_the_contract_refuses_another_schema(tmp_path: Path) -> None:
    text = "source: table.parquet\nread: {contract: contract.json}"
    made(tmp_path, text, FRAME)
    made(tmp_path, text, FRAME.head(100), name="same")
    changed = FRAME.drop("city").with_columns(pl.col("n").cast(pl.String), pl.lit(1).alias("more"))
    with pytest.raises(InputError) as caught:
        made(tmp_path, text, changed, name="changed")
    said = str(caught.value)
    assert 'column "city" is missing' in said
    assert 'column "more" is new' in said
    assert 'column "n" is String, not Int64' in said


def test_files_of_one_source_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    FRAME.write_parquet(tmp_path / "many" / "1.parquet")
    FRAME.drop("a").write_parquet(tmp_path / "many" / "2.parquet")
    with pytest.raises(InputError, match='column "a" is missing'):
        made(tmp_path, "source: many")
    FRAME.write_csv(tmp_path / "many" / "3.csv")
    with pytest.raises(InputError, match="several formats"):
        made(tmp_path, "source: many")


def test_infinities_are_nulls_or_put_apart(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [1.0, float("inf"), float("nan"), 3.0, -float("inf")], "y": [1.0] * 5})
    as_null = made(tmp_path, "source: table.parquet\nsteps: [{impute: {value: mean}}]", frame)
    assert as_null.table("train")["x"].to_list() == [1.0, 2.0, 2.0, 3.0, 2.0]
    assert as_null.transform
    assert as_null.transform.matrix({"x": [float("inf")], "y": [None]}).tolist() == [[2.0, 1.0]]
    apart = made(tmp_path, "source: table.parquet\nread: {infinite: quarantine}", frame, name="apart")
    assert apart.manifest.quarantined == 3
    assert apart.table("train")["x"].to_list() == [1.0, 3.0]


def test_a_column_of_nulls_passes_through(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "x": pl.Series([None] * 4, dtype=pl.Float64),
            "y": [1.0, 2.0, 3.0, 4.0],
            "c": pl.Series([None] * 4, dtype=pl.String),
        }
    )
    steps = "[{zscore: {}}, {onehot: {columns: [c]}}, {impute: {value: mean}}]"
    prepared = made(tmp_path, f"source: table.parquet\nsteps: {steps}", frame)
    assert prepared.manifest.features == ("x", "y")
    assert prepared.arrays("train").x[:, 0].tolist() == [0.0] * 4


def test_serving_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    prepared = made(
        tmp_path,
        "source: table.parquet\nlabel: label\nsteps: [{zscore: {columns: [a]}}, {onehot: {columns: [city]}}]",
        FRAME,
    )
    transform = prepared.transform
    assert transform
    row = {column.name: [1] if column.kind == "number" else ["Atlantis"] for column in transform.inputs}
    hot = [place for place, name in enumerate(transform.outputs) if name.startswith("city=")]
    assert transform.matrix(row)[0, hot].tolist() == [0.0] * len(hot)  # a category that was never seen
    with pytest.raises(InputError, match="column a: is missing"):
        transform.matrix({name: value for name, value in row.items() if name != "a"})
    with pytest.raises(InputError, match='row 0: "seven" is not a number'):
        transform.matrix(row | {"a": ["seven"]})
    with pytest.raises(InputError, match="different numbers of rows"):
        transform.matrix(row | {"a": [1.0, 2.0]})


def test_texts_are_documents_or_lines(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "corpus" / "b.txt").write_text("three")
    assert made(tmp_path, "source: corpus").table("train")["text"].to_list() == ["one\ntwo\n", "three"]
    by_line = made(tmp_path, "source: corpus\nread: {lines: true}", name="lines")
    assert by_line.table("train")["text"].to_list() == ["one", "two", "three"]


def test_fingerprints_follow_the_contents(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 1000)
    first = fingerprint(str(path))
    path.write_bytes(b"a" * 999 + b"b")
    assert fingerprint(str(path)) != first

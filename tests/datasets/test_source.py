"""Sources: all formats give equal rows; broken files raise errors, bad rows are quarantined."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import fsspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.source.files import SourceFiles, fingerprint
from gpuyard.datasets.source.stage import stage
from gpuyard.datasets.spec import ReadSpec
from gpuyard.errors import InputError

from .tables import mixed_table, prepare_yaml

FRAME = mixed_table(200).select("id", "a", "n", "city", "label")


def rows(prepared: PreparedDataset) -> pl.DataFrame:
    return prepared.table("train").with_columns(pl.col("a").cast(pl.Float32))


def expected() -> pl.DataFrame:
    return FRAME.with_columns(pl.col("a").cast(pl.Float32))


def write_zstd(path: Path, data: bytes) -> None:
    with pa.output_stream(str(path), compression="zstd") as stream:
        stream.write(data)


@pytest.mark.parametrize(
    "name",
    [
        "t.parquet",
        "t.csv",
        "t.tsv",
        "t.jsonl",
        "t.arrow",
        "t.csv.gz",
        "t.jsonl.zst",
        "folder",
        "many/*.csv",
        "file://",
    ],
)
def test_all_formats_give_equal_rows(name: str, tmp_path: Path) -> None:
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
    prepared = prepare_yaml(tmp_path, f'source: "{source}"')
    assert rows(prepared).equals(expected())
    assert prepared.manifest.quarantined == 0


def test_fsspec_file_system_is_read(tmp_path: Path) -> None:
    with fsspec.open("memory://data/t.csv", "wb") as stream:
        stream.write(FRAME.write_csv().encode())
    try:
        assert rows(prepare_yaml(tmp_path, "source: memory://data/t.csv")).equals(expected())
    finally:
        fsspec.filesystem("memory").rm("/data", recursive=True)


def test_chunks_end_with_complete_lines(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"n": range(500), "t": [f'say "{at}"\nover, {"two" * (at % 7)} lines' for at in range(500)]}
    )
    frame.write_csv(tmp_path / "t.csv")
    files = SourceFiles(paths=(str(tmp_path / "t.csv"),), format="csv")
    done = stage(files, ReadSpec(), tmp_path / "staged", chunk_bytes=700)
    assert len(done.paths) > 5
    assert pl.read_parquet(list(done.paths)).equals(frame)


def test_rows_with_mixed_types_are_quarantined(tmp_path: Path) -> None:
    lines = ["x,y", *(f"{at},{at / 2}" for at in range(20_000)), "oops,1.0", "1,2,3", "7,8.5"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    prepared = prepare_yaml(tmp_path, "source: t.csv")
    assert prepared.manifest.counts[0].quarantined == 2
    assert prepared.manifest.rows_in == 20_003
    assert prepared.manifest.rows_out == 20_001
    table = pl.concat(
        [pl.read_parquet(tmp_path / "out" / shard.path) for shard in prepared.manifest.quarantine]
    )
    assert set(table["reason"]) == {'x: "oops" is not Int64', "3 fields instead of 2"}


def test_json_lines_with_mixed_types_are_quarantined(tmp_path: Path) -> None:
    good = [json.dumps({"x": at, "y": str(at)}) for at in range(50)]
    (tmp_path / "t.jsonl").write_text(
        "\n".join([*good, '{"x": "seven", "y": "7"}', "not json", "[1]", '{"x": 1, "z": 2}']) + "\n"
    )
    prepared = prepare_yaml(tmp_path, "source: t.jsonl")
    assert prepared.manifest.rows_in == 54
    assert prepared.manifest.rows_in == prepared.manifest.rows_out + prepared.manifest.quarantined
    assert prepared.manifest.quarantined >= 2


def test_broken_source_files_raise_input_error(tmp_path: Path) -> None:
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
            prepare_yaml(tmp_path, f"source: {name}", name=f"out-{name}")
        assert name in str(caught.value)
    for missing in ("nothing.parquet", "none/*.csv", "memory://nothing/here.csv"):
        with pytest.raises(InputError, match=r"no such file|no file matches"):
            prepare_yaml(tmp_path, f'source: "{missing}"', name="missing")


def test_corrupt_parquet_page_raises_input_error(tmp_path: Path) -> None:
    mixed_table(5000).write_parquet(tmp_path / "t.parquet", compression="zstd")
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[4:200] = np.random.default_rng(0).bytes(196)  # the header of the first page
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"t\.parquet.*cannot be read"):
        prepare_yaml(tmp_path, "source: t.parquet")


def test_encoding_setting_is_applied(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("x,name\n1,Zürich\n".encode("latin-1"))
    prepared = prepare_yaml(tmp_path, "source: latin.csv\nread: {encoding: latin-1}")
    assert prepared.table("train")["name"].to_list() == ["Zürich"]


def test_contract_reports_schema_differences(tmp_path: Path) -> None:
    text = "source: table.parquet\nread: {contract: contract.json}"
    prepare_yaml(tmp_path, text, FRAME)
    prepare_yaml(tmp_path, text, FRAME.head(100), name="same")
    changed = FRAME.drop("city").with_columns(pl.col("n").cast(pl.String), pl.lit(1).alias("more"))
    with pytest.raises(InputError) as caught:
        prepare_yaml(tmp_path, text, changed, name="changed")
    message = str(caught.value)
    assert 'column "city" is missing' in message
    assert 'column "more" is new' in message
    assert 'column "n" is String, not Int64' in message


def test_files_with_different_columns_raise_input_error(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    FRAME.write_parquet(tmp_path / "many" / "1.parquet")
    FRAME.drop("a").write_parquet(tmp_path / "many" / "2.parquet")
    with pytest.raises(InputError, match='column "a" is missing'):
        prepare_yaml(tmp_path, "source: many")
    FRAME.write_csv(tmp_path / "many" / "3.csv")
    with pytest.raises(InputError, match="several formats"):
        prepare_yaml(tmp_path, "source: many")


def test_infinities_are_nulls_or_quarantined(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"x": [1.0, float("inf"), float("nan"), 3.0, -float("inf")], "y": [1.0] * 5}
    )
    as_null = prepare_yaml(
        tmp_path, "source: table.parquet\nsteps: [{impute: {value: mean}}]", frame
    )
    assert as_null.table("train")["x"].to_list() == [1.0, 2.0, 2.0, 3.0, 2.0]
    assert as_null.transform
    assert as_null.transform.matrix({"x": [float("inf")], "y": [None]}).tolist() == [[2.0, 1.0]]
    quarantined = prepare_yaml(
        tmp_path, "source: table.parquet\nread: {infinite: quarantine}", frame, name="quarantined"
    )
    assert quarantined.manifest.quarantined == 3
    assert quarantined.table("train")["x"].to_list() == [1.0, 3.0]


def test_column_of_nulls_is_imputed_with_zero(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "x": pl.Series([None] * 4, dtype=pl.Float64),
            "y": [1.0, 2.0, 3.0, 4.0],
            "c": pl.Series([None] * 4, dtype=pl.String),
        }
    )
    steps = "[{zscore: {}}, {onehot: {columns: [c]}}, {impute: {value: mean}}]"
    prepared = prepare_yaml(tmp_path, f"source: table.parquet\nsteps: {steps}", frame)
    assert prepared.manifest.features == ("x", "y")
    assert prepared.arrays("train").x[:, 0].tolist() == [0.0] * 4


def test_transform_raises_input_error_for_invalid_requests(tmp_path: Path) -> None:
    prepared = prepare_yaml(
        tmp_path,
        "source: table.parquet\nlabel: label\nsteps: [{zscore: {columns: [a]}}, {onehot: {columns: [city]}}]",
        FRAME,
    )
    transform = prepared.transform
    assert transform
    row = {
        column.name: [1] if column.kind == "number" else ["Atlantis"] for column in transform.inputs
    }
    hot = [place for place, name in enumerate(transform.outputs) if name.startswith("city=")]
    assert transform.matrix(row)[0, hot].tolist() == [0.0] * len(
        hot
    )  # a category that was never seen
    with pytest.raises(InputError, match="column a: is missing"):
        transform.matrix({name: value for name, value in row.items() if name != "a"})
    with pytest.raises(InputError, match='row 0: "seven" is not a number'):
        transform.matrix(row | {"a": ["seven"]})
    with pytest.raises(InputError, match="different numbers of rows"):
        transform.matrix(row | {"a": [1.0, 2.0]})


def test_text_source_reads_documents_or_lines(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "corpus" / "b.txt").write_text("three")
    assert prepare_yaml(tmp_path, "source: corpus").table("train")["text"].to_list() == [
        "one\ntwo\n",
        "three",
    ]
    by_line = prepare_yaml(tmp_path, "source: corpus\nread: {lines: true}", name="lines")
    assert by_line.table("train")["text"].to_list() == ["one", "two", "three"]


def test_fingerprint_changes_with_contents(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a" * 1000)
    first = fingerprint(str(path))
    path.write_bytes(b"a" * 999 + b"b")
    assert fingerprint(str(path)) != first

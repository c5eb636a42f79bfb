"""Datasets saved by Hugging Face's library, as their files are laid out on disk."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.source.huggingface import arrow_frames
from gpuyard.datasets.spec import DataSpec
from gpuyard.errors import InputError


def save(folder: Path, parts: list[pl.DataFrame], **state: object) -> None:
    """Write the folder as `Dataset.save_to_disk` does."""
    folder.mkdir(parents=True)
    names = [f"data-{at:05d}-of-{len(parts):05d}.arrow" for at in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        table = part.to_arrow(compat_level=pl.CompatLevel.oldest())
        with (
            pa.OSFile(str(folder / name), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as out,
        ):
            out.write_table(table, max_chunksize=2)
    files = [{"filename": name} for name in names]
    text = json.dumps({"_data_files": files, "_split": "train", **state})
    (folder / "state.json").write_text(text, encoding="utf-8")
    (folder / "dataset_info.json").write_text("{}", encoding="utf-8")


FRAME = pl.DataFrame({"x": list(range(5)), "talk": [[{"role": "user", "content": "a"}]] * 5})


def test_saved_dataset_is_a_source(tmp_path: Path) -> None:
    save(tmp_path / "saved" / "train", [FRAME[:3], FRAME[3:]])
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    spec = DataSpec(source="saved/train", ignore=("talk",))
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "out")
    assert prepared.table("train")["x"].to_list() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="holds the splits train or test"):
        prepare(DataSpec(source="saved"), base=tmp_path, out=tmp_path / "other")


def test_streams_are_read_in_pieces_with_nested_columns(tmp_path: Path) -> None:
    save(tmp_path / "saved", [FRAME])
    path = str(tmp_path / "saved" / "data-00000-of-00001.arrow")
    frames = list(arrow_frames([path], 1))
    assert len(frames) == 3
    assert pl.concat(frames).equals(FRAME)


def test_datasets_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "selected", [FRAME], _indices_data_files=[{"filename": "indices.arrow"}])
    save(tmp_path / "broken", [FRAME])
    (tmp_path / "broken" / "data-00000-of-00001.arrow").write_bytes(b"no stream")
    save(tmp_path / "empty", [])
    save(tmp_path / "odd", [FRAME], _data_files=["data-00000-of-00001.arrow"])
    for name, message in (
        ("selected", "flatten_indices"),
        ("odd", "names no data files"),
        ("broken", "not a stream of Arrow batches"),
        ("empty", "names no data files"),
    ):
        with pytest.raises(InputError, match=message):
            prepare(DataSpec(source=name), base=tmp_path, out=tmp_path / "out")

"""Damaged files of prepared data are named and never used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpuyard.datasets.folds import folds
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.prepared import PreparedDataset, load_prepared
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.scale import ZScore
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.errors import InputError


def flip_bit(path: Path) -> None:
    """Flip one bit in the middle of a file, keeping its size."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def table(folder: Path) -> PreparedDataset:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=200), "y": rng.integers(0, 2, 200)})
    frame.write_parquet(folder / "rows.parquet")
    spec = DataSpec(
        source="rows.parquet",
        label="y",
        steps=(StepSpec(zscore=ZScore()),),
        split=SplitSpec(test_ratio=0.25),
    )
    return prepare(spec, base=folder, out=folder / "out")


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("train/part-000000.parquet", lambda data: data.arrays("train")),
        ("test/part-000000.parquet", lambda data: data.table("test")),
        ("base/part-000000.parquet", lambda data: next(folds(data, count=2))),
        ("transform.json", lambda data: load_prepared(data.folder)),
    ],
)
def test_damaged_file_is_named_and_not_used(
    tmp_path: Path, name: str, use: Callable[[PreparedDataset], object]
) -> None:
    data = table(tmp_path)
    use(data)
    flip_bit(data.folder / name)
    with pytest.raises(InputError) as caught:
        use(data)
    assert [problem.where for problem in caught.value.problems] == [str(data.folder / name)]
    with pytest.raises(InputError):
        load_prepared(data.folder).check()


def test_damaged_manifest_is_refused_and_prepared_again(tmp_path: Path) -> None:
    data = table(tmp_path)
    file = data.folder / "manifest.json"
    text = file.read_text()
    assert '"y"' in text
    file.write_text(text.replace('"y"', '"z"'))  # valid JSON with another label
    with pytest.raises(InputError) as caught:
        load_prepared(data.folder)
    assert caught.value.problems[0].where == str(file)
    assert table(tmp_path).manifest == data.manifest
    (data.folder / "manifest.sha256").unlink()  # as data that was prepared earlier
    assert load_prepared(data.folder).manifest == data.manifest


def test_preparing_again_replaces_damaged_files(tmp_path: Path) -> None:
    data = table(tmp_path)
    before = data.arrays("train").x
    version = data.manifest.version
    for name in ("train", "base"):
        flip_bit(data.folder / name / "part-000000.parquet")
    again = table(tmp_path)
    assert again.manifest.version == version
    again.check()
    assert np.array_equal(again.arrays("train").x, before)


def test_facts_and_tokenizers_of_packed_tokens_are_checked(tmp_path: Path) -> None:
    texts = [f"sentence number {number} of a small corpus" for number in range(50)]
    pl.DataFrame({"text": texts}).write_parquet(tmp_path / "rows.parquet")
    spec = DataSpec(source="rows.parquet", steps=(StepSpec(tokenise=Tokenise(sequence_tokens=16)),))
    data = prepare(spec, base=tmp_path, out=tmp_path / "out")
    data.tokens("train")
    names = [file.path for file in data.manifest.other_files]
    assert "train/tokenizer.json" in names
    assert any(name.endswith(".json") and "part-" in name for name in names)
    flip_bit(data.folder / "train" / "tokenizer.json")
    with pytest.raises(InputError, match="SHA-256"):
        data.tokens("train")


def test_file_is_hashed_once_per_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = table(tmp_path)
    data.check()
    monkeypatch.setattr("gpuyard.datasets.digests.digest_of_file", lambda _: pytest.fail("hashed"))
    data.check()
    data.table("train")

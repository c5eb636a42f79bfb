"""Models that run Python code of their author: only where it is allowed, with its errors."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from gpuyard.app.batch_predict import predict_file
from gpuyard.errors import GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.serving.spec import ServedModel

from .cases import ask, bundle, register, serving

CODE = """def add_rome(rows):
    assert not rows["city"].eq("nowhere").any(), "no such city"
    return (rows["city"] == "Rome").cast(float)
"""
MOUNTS = (ServedModel(name="own", reference="own"), ServedModel(name="plain", reference="plain"))


def request(city: str) -> dict[str, object]:
    return {
        "inputs": [
            {"name": "age", "shape": [1], "datatype": "FP64", "data": [31.5]},
            {"name": "income", "shape": [1], "datatype": "INT64", "data": [900]},
            {"name": "city", "shape": [1], "datatype": "BYTES", "data": [city]},
        ]
    }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(path=tmp_path / "home")
    register(home, "own", bundle(tmp_path / "own", code=CODE))
    register(home, "plain", bundle(tmp_path / "plain", columns=True))
    return home


def test_server_runs_code_only_with_permission(home: Home) -> None:
    with pytest.raises(GpuyardError, match="--allow-code"), serving(home, MOUNTS[:1]):
        pass
    with serving(home, MOUNTS, allow_code=True) as endpoint:
        for city in ("Rome", "Oslo", "Bergen"):
            answers = [
                ask(f"{endpoint.url}/v2/models/{name}/infer", request(city))
                for name in ("own", "plain")
            ]
            assert [status for status, _ in answers] == [200, 200]
            own, plain = (answer["outputs"] for _, answer in answers)  # type: ignore[index]
            assert own == plain
        status, answer = ask(f"{endpoint.url}/v2/models/own/infer", request("nowhere"))
        assert status == 500
        assert "steps.py:2" in str(answer)
        assert "no such city" in str(answer)


def test_batch_predictions_run_code_only_with_permission(home: Home, tmp_path: Path) -> None:
    frame = pl.DataFrame({"age": [1.0, None], "income": [900, 100], "city": ["Rome", "Oslo"]})
    frame.write_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "out.parquet"
    with pytest.raises(InputError, match="--allow-code"):
        predict_file("own", tmp_path / "rows.parquet", out, home=home)
    predict_file("own", tmp_path / "rows.parquet", out, home=home, allow_code=True)
    predict_file("plain", tmp_path / "rows.parquet", tmp_path / "plain.parquet", home=home)
    assert pl.read_parquet(out).equals(pl.read_parquet(tmp_path / "plain.parquet"))

"""`gpuyard serve` from the command line: in the background, listed, stopped."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

import pytest

from gpuyard.cli import main
from gpuyard.home import Home

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    for needed in ("granian", "msgspec", "onnx", "onnxruntime", "polars"):
        pytest.importorskip(needed)
from ..serving.cases import bundle, register


def test_a_service_is_started_listed_and_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(tmp_path / "home")]
    folder = bundle(tmp_path / "tiny")
    assert main(["serve", str(folder), "--port", "0", "--detach", "--json", *home]) == 0
    endpoint = json.loads(capsys.readouterr().out)
    try:
        with urllib.request.urlopen(f"{endpoint['url']}/v2/models/tiny/ready", timeout=5) as answer:
            assert json.load(answer) == {"name": "tiny", "ready": True}
        assert main(["serve", str(folder), "--port", "0", "--detach", *home]) == 4
        assert "runs already" in capsys.readouterr().err
        assert main(["serve", "--list", *home]) == 0
        assert "running" in capsys.readouterr().out
    finally:
        assert main(["serve", "--stop", "tiny", "--json", *home]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"
    assert not Path(f"/proc/{endpoint['pid']}").exists()


def test_the_list_shows_a_canary_and_its_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(path=tmp_path / "home")
    register(home, "tiny", bundle(tmp_path / "one"))
    register(home, "tiny", bundle(tmp_path / "two", bias=1.0), alias="challenger")
    words = ["--home", str(home.path)]
    canary = ["--canary", "tiny@challenger=10%"]
    assert main(["serve", "tiny@champion", *canary, "--port", "0", "--detach", "--json", *words]) == 0
    try:
        assert json.loads(capsys.readouterr().out)["canaries"] == [{"model": "tiny/2", "share_ratio": 0.1}]
        assert main(["serve", "--list", "--json", *words]) == 0
        assert json.loads(capsys.readouterr().out)[0]["canaries"] == [{"model": "tiny/2", "share_ratio": 0.1}]
        assert main(["serve", "--list", *words]) == 0
        assert "tiny/2 10%" in capsys.readouterr().out
    finally:
        assert main(["serve", "--stop", "tiny", *words]) == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "names no model"),
        (["m", "--list"], 2, "more than one thing"),
        (["m"], 2, "is not registered"),
        (["./nowhere"], 2, "is not a model"),
        (["--stop", "x"], 2, "was never started"),
        (["m", "--port", "99999"], 2, "is not a port"),
        (["m", "--canary", "m"], 2, "--canary"),
    ],
)
def test_what_is_wrong_is_said(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *words, "--home", str(tmp_path)]) == code
    assert said in capsys.readouterr().err

"""`gpuyard serve`: start in the background, list and stop."""

from __future__ import annotations

import json
import os
import shlex
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.home import Home

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    for needed in ("granian", "msgspec", "onnx", "onnxruntime", "polars"):
        pytest.importorskip(needed)
from gpuyard.serving.api_keys import ApiKeys

from ..serving.cases import bundle, register


@pytest.mark.slow
def test_service_is_started_listed_and_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(tmp_path / "home")]
    folder = bundle(tmp_path / "tiny")
    assert main(["serve", str(folder), "--port", "0", "--detach", "--json", *home]) == 0
    endpoint = json.loads(capsys.readouterr().out)
    try:
        with urllib.request.urlopen(
            f"{endpoint['url']}/v2/models/tiny/ready", timeout=120
        ) as response:
            assert json.load(response) == {"name": "tiny", "ready": True}
        assert main(["serve", str(folder), "--port", "0", "--detach", *home]) == 4
        assert "already running" in capsys.readouterr().err
        assert main(["serve", "--list", *home]) == 0
        assert "running" in capsys.readouterr().out
    finally:
        assert main(["serve", "--stop", "tiny", "--json", *home]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"
    assert not Path(f"/proc/{endpoint['pid']}").exists()


@pytest.mark.slow
def test_list_shows_canary_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(path=tmp_path / "home")
    register(home, "tiny", bundle(tmp_path / "one"))
    register(home, "tiny", bundle(tmp_path / "two", bias=1.0), alias="challenger")
    words = ["--home", str(home.path)]
    canary = ["--canary", "tiny@challenger=10%"]
    assert (
        main(["serve", "tiny@champion", *canary, "--port", "0", "--detach", "--json", *words]) == 0
    )
    try:
        assert json.loads(capsys.readouterr().out)["canaries"] == [
            {"model": "tiny/2", "share_ratio": 0.1}
        ]
        assert main(["serve", "--list", "--json", *words]) == 0
        assert json.loads(capsys.readouterr().out)[0]["canaries"] == [
            {"model": "tiny/2", "share_ratio": 0.1}
        ]
        assert main(["serve", "--list", *words]) == 0
        assert "tiny/2 10%" in capsys.readouterr().out
    finally:
        assert main(["serve", "--stop", "tiny", *words]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no model"),
        (["m", "--list"], "more than one action"),
        (["m"], "is not registered"),
        (["./nowhere"], "is not a model"),
        (["--stop", "x"], "was never started"),
        (["m", "--port", "99999"], "is not a port"),
        (["m", "--canary", "m"], "--canary"),
    ],
)
def test_wrong_arguments_exit_with_2(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *words, "--home", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_network_without_key_exits_with_2_and_names_fix(
    tmp_path: Path,
    certificate: Callable[[Path], tuple[str, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [str(bundle(tmp_path / "tiny")), "--home", str(tmp_path / "home"), "--port", "0"]
    cert, key = certificate(tmp_path / "tls")
    (tmp_path / "none").write_text("plain-text-key\n")
    for more in (
        ["--host", "0.0.0.0"],
        ["--host", "0.0.0.0", "--tls-cert", cert, "--tls-key", key],
        ["--host", "0.0.0.0", "--api-keys", str(tmp_path / "none")],
        ["--tls-cert", cert],
        ["--add-api-key", "x", "--list"],
    ):
        assert main(["serve", *words, *more]) == 2, more
        error = capsys.readouterr().err
        assert "fix: " in error
        assert "plain-text-key" not in error


def test_key_is_created_and_printed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys"
    words = ["serve", "--api-keys", str(file), "--add-api-key"]
    assert main([*words, "one", "--json"]) == 0
    key = json.loads(capsys.readouterr().out)["key"]
    assert ApiKeys(file).name_of(key) == "one"
    assert main([*words, "two"]) == 0
    assert ApiKeys(file).name_of(capsys.readouterr().out.splitlines()[0]) == "two"
    assert main([*words, "two"]) == 2
    assert main(["serve", "--add-api-key", "three"]) == 2


@pytest.mark.slow
def test_printed_commands_call_and_stop_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ["--home", str(tmp_path / "home")]
    words = [str(bundle(tmp_path / "tiny")), "--port", "0", "--detach", *home]
    assert main(["serve", *words]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    calls = [shlex.split(line) for line in lines if line.startswith("curl ")]
    (stop,) = (line.partition("gpuyard ")[2] for line in lines if line.startswith("stop it"))
    try:
        (metadata, infer) = calls
        with urllib.request.urlopen(metadata[1], timeout=120) as response:
            assert json.load(response)["name"] == "tiny"
        with urllib.request.urlopen(infer[1], infer[3].encode(), timeout=120) as response:
            assert json.load(response)["model_name"] == "tiny"
    finally:
        assert main(shlex.split(stop)) == 0

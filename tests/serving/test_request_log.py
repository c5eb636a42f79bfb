"""The request log: what is answered is logged with its inputs, a share of it, on one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.serving.request_log import RequestLog
from gpuyard.serving.response_writer import HEAD_LENGTH
from gpuyard.serving.spec import RequestLogSpec, ServedModel, ServerSettings, check_settings

from .cases import ask, bundle, register, serving, until

ANSWER = (200, [("content-type", "application/json")], b'{"outputs": []}')


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_requests_are_logged_on_one_line_each(tmp_path: Path) -> None:
    log = RequestLog(RequestLogSpec(path=str(tmp_path / "log.jsonl")))
    log.add(("m", "1"), b'{\n  "inputs": [1, 2]\n}', ANSWER, 0.5)
    log.add(("m", "1"), b"\xff no JSON", (400, [], b'{"error": "invalid"}'), 0.1)
    binary = (200, [(HEAD_LENGTH, "3")], b"{}\n\0\0")
    log.add(("m", "1"), b"{}", binary, 0.1)
    assert not (tmp_path / "log.jsonl").exists()
    log.flush()
    log.flush()
    first, second, third = lines(tmp_path / "log.jsonl")
    assert (first["request"], first["response"]) == ({"inputs": [1, 2]}, {"outputs": []})
    assert (first["model"], first["version"], first["latency_s"]) == ("m", "1", 0.5)
    assert (second["request"], second["status"]) == (None, 400)
    assert third["response"] is None


def test_share_of_the_requests_is_logged(tmp_path: Path) -> None:
    log = RequestLog(RequestLogSpec(path=str(tmp_path / "log.jsonl"), share_ratio=0.25))
    for _ in range(2000):
        log.add(("m", "1"), b"{}", ANSWER, 0.1)
    log.flush()
    assert 380 < len(lines(tmp_path / "log.jsonl")) < 620


def test_file_that_cannot_be_written_keeps_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "log.jsonl"
    log = RequestLog(RequestLogSpec(path=str(path)))
    log.add(("m", "1"), b"{}", ANSWER, 0.1)
    log.flush()
    path.parent.mkdir()
    log.flush()
    assert len(lines(path)) == 1


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    spec = RequestLogSpec(path=str(tmp_path / "none" / "log.jsonl"), share_ratio=0)
    settings = ServerSettings(
        name="s", mounts=(ServedModel(name="m"),), home="", folder="", request_log=spec
    )
    with pytest.raises(InputError) as caught:
        check_settings(settings)
    assert [problem.what.split()[-1] for problem in caught.value.problems] == ["share", "folder"]


def test_server_logs_inputs_and_outputs(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    register(home, "m", bundle(tmp_path / "bundle"))
    path = tmp_path / "requests.jsonl"
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    spec = RequestLogSpec(path=str(path))
    mounts = (ServedModel(name="m", reference="m"),)
    with serving(home, mounts, request_log=spec) as endpoint:
        assert ask(f"{endpoint.url}/v2/models/m/infer", {"inputs": [tensor]})[0] == 200
        until(lambda: path.exists() and len(lines(path)) == 1)
    (line,) = lines(path)
    assert line["request"] == {"inputs": [tensor]}
    assert line["status"] == 200

"""A language model in an engine of its own: a small OpenAI-compatible program in vLLM's place."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError, GpuyardError, InputError
from gpuyard.home import Home
from gpuyard.registry.bundle import WEIGHTS, ModelBundle, Tensor, write_bundle
from gpuyard.serving.api_keys import add_key
from gpuyard.serving.engine_process import engine_command, new_address
from gpuyard.serving.spec import AccessSpec, InferenceEngineSpec, ServedModel
from gpuyard.serving.version_sources import find_version

from .cases import ask, register, serving, until

# Takes vLLM's command line, answers in OpenAI's form, and exits when a prompt says so.
ENGINE = """#!PYTHON
import argparse, http.server, json, os, pathlib

parser = argparse.ArgumentParser()
for name in ("serve", "weights"):
    parser.add_argument(name)
for name in ("--served-model-name", "--host", "--port", "--broken"):
    parser.add_argument(name)
options = parser.parse_args()
if options.broken:
    raise SystemExit(3)
assert (pathlib.Path(options.weights) / "config.json").is_file()


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(200, b"")

    def do_POST(self):
        if self.headers["authorization"] != "Bearer " + os.environ["VLLM_API_KEY"]:
            return self.send(401, b"{}")
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request.get("prompt") == "exit":
            os._exit(4)
        if request.get("stream"):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for part in ("a", "b", "[DONE]"):
                event = f"data: {part}\\n\\n".encode()
                self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(event), event))
            return self.wfile.write(b"0\\r\\n\\r\\n")
        if request["model"] != options.served_model_name or "wrong" in request:
            return self.send(422, b'{"error": {"message": "no"}}')
        answer = {"path": self.path, "pid": os.getpid(), "usage": {"completion_tokens": 7}}
        self.send(200, json.dumps(answer).encode())


http.server.ThreadingHTTPServer((options.host, int(options.port)), Engine).serve_forever()
"""
MOUNTS = (ServedModel(name="tiny", reference="tiny"),)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(path=tmp_path / "home")
    folder = tmp_path / "bundle"
    (folder / WEIGHTS).mkdir(parents=True)
    (folder / WEIGHTS / "config.json").write_text("{}", encoding="utf-8")
    outputs = (Tensor(name="text", dtype="str"),)
    tensors = (Tensor(name="prompt", dtype="str"),)
    bundle = ModelBundle(kind="language", trainer="lora", inputs=tensors, outputs=outputs)
    write_bundle(folder, bundle)
    register(home, "tiny", folder)
    return home


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "vllm"
    path.write_text(ENGINE.replace("PYTHON", sys.executable), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_engine_serves_behind_the_keys_and_metrics_of_the_server(
    home: Home, program: str, tmp_path: Path
) -> None:
    key = add_key(tmp_path / "keys.txt", "test")
    access = AccessSpec(api_keys=str(tmp_path / "keys.txt"))
    engine = InferenceEngineSpec(name="vllm", program=program)
    headers = {"x-api-key": key}
    with serving(home, MOUNTS, engine=engine, access=access, workers=2) as endpoint:
        url = f"{endpoint.url}/v1/chat/completions"
        body: dict[str, object] = {"model": "tiny", "messages": [], "tools": [{"any": "field"}]}
        assert ask(url, body)[0] == 401
        status, answer = ask(url, body, headers)
        assert status == 200
        assert isinstance(answer, dict)
        assert answer["path"] == "/v1/chat/completions"
        assert ask(f"{endpoint.url}/v1/embeddings", body, headers)[0] == 200
        assert ask(url, {**body, "wrong": 1}, headers) == (422, {"error": {"message": "no"}})
        messages = [{"role": "user", "content": "hello"}]
        assert ask(url, {"model": "other", "messages": messages}, headers)[0] == 404
        request = urllib.request.Request(
            url, json.dumps({**body, "stream": True}).encode(), headers
        )
        with urllib.request.urlopen(request, timeout=20) as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.read() == b"data: a\n\ndata: b\n\ndata: [DONE]\n\n"
        _, models = ask(f"{endpoint.url}/v1/models", headers=headers)
        assert [row["id"] for row in models["data"]] == ["tiny"]  # type: ignore[index]
        line = 'gpuyard_requests_total{model="tiny",version="1",code="200"} 3'
        until(lambda: line in str(ask(f"{endpoint.url}/metrics", headers=headers)[1]))
        assert 'gpuyard_rows_total{model="tiny",version="1"} 14' in str(
            ask(f"{endpoint.url}/metrics", headers=headers)[1]
        )
        pid = int(answer["pid"])
        assert is_running(pid)
    assert not is_running(pid)


def test_engine_that_exits_is_started_again(home: Home, program: str) -> None:
    engine = InferenceEngineSpec(name="vllm", program=program)
    with serving(home, MOUNTS, engine=engine) as endpoint:
        url = f"{endpoint.url}/v1/completions"
        first = ask(url, {"model": "tiny", "prompt": "one"})[1]["pid"]  # type: ignore[index]
        status, answer = ask(url, {"model": "tiny", "prompt": "exit"})
        assert status == 503
        assert "restarted" in str(answer)
        until(lambda: ask(url, {"model": "tiny", "prompt": "two"})[0] == 200)
        assert ask(url, {"model": "tiny", "prompt": "two"})[1]["pid"] != first  # type: ignore[index]
        until(lambda: ask(f"{endpoint.url}/v2/health/ready")[0] == 200)


def test_engine_that_never_starts_stops_the_server(home: Home, program: str) -> None:
    engine = InferenceEngineSpec(name="vllm", program=program, arguments=("--broken", "yes"))
    with (
        pytest.raises(GpuyardError, match="exited with code 3 before it was ready"),
        serving(home, MOUNTS, engine=engine),
    ):
        pass


def test_command_lines_and_missing_programs(home: Home, program: str) -> None:
    resolved = find_version(MOUNTS[0], home)
    address = new_address("tiny", 9001)
    spec = InferenceEngineSpec(name="vllm", program=program, arguments=("--dtype", "half"))
    words = engine_command(spec, resolved, address)
    assert words[:3] == [program, "serve", str(resolved.folder / WEIGHTS)]
    assert words[-2:] == ["--dtype", "half"]
    assert address.key not in words  # other users can read command lines
    with pytest.raises(ExternalError, match="pip install vllm"):
        engine_command(InferenceEngineSpec(name="vllm", program="/no/vllm"), resolved, address)
    with pytest.raises(InputError, match=r"no \.gguf file"):
        engine_command(InferenceEngineSpec(name="llama.cpp"), resolved, address)
    sglang = engine_command(InferenceEngineSpec(name="sglang"), resolved, address)
    assert sglang[1:3] == ["-m", "sglang.launch_server"]

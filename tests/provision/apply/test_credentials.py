"""Credentials: requested late, never stored, sent only to Google."""

from __future__ import annotations

import http.client
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli.main import main
from gpuyard.errors import ExternalError, InputError
from gpuyard.provision.apply.credentials import application_default_token
from gpuyard.provision.apply.destroy import destroy
from gpuyard.provision.apply.execute import apply
from gpuyard.provision.apply.transport import GoogleTransport, LocalTransport, redacted

from ..fake.server import Fake, Faults, serve
from .folders import render
from .requests import LABELS, job_files
from .runs import apply_run

TOKEN = "plainlookingsecret0123456789"
AUTH = f"""
class Credentials:
    valid = False
    token = None
    def refresh(self, request):
        self.valid, self.token = True, "{TOKEN}"
def default(scopes):
    return Credentials(), "yard-1"
"""


def towards(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redirect requests for Google to the fake, with their headers."""
    port = int(fake.url.rsplit(":", 1)[1])

    class Loop(http.client.HTTPConnection):
        def __init__(self, host: str, timeout: float, **_: object) -> None:
            super().__init__(host, timeout=timeout)

        def connect(self) -> None:
            self.host, self.port, address = "127.0.0.1", port, (self.host, self.port)
            super().connect()
            self.host, self.port = address

    monkeypatch.setattr(http.client, "HTTPSConnection", Loop)


@pytest.fixture
def google_auth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake google-auth that returns a token."""
    package = tmp_path / "site" / "google" / "auth" / "transport"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text(AUTH, encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "requests.py").write_text("class Request: pass\n", encoding="utf-8")
    for name in [
        name for name in sys.modules if name == "google" or name.startswith("google.auth")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    for name in [
        name for name in sys.modules if name == "google" or name.startswith("google.auth")
    ]:
        del sys.modules[name]


@pytest.mark.usefixtures("google_auth")
def test_token_is_sent_but_never_stored_or_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = render(tmp_path / "sample", "a2-highgpu-1g", "single-node", "spot")
    monkeypatch.delenv("GPUYARD_ENDPOINT", raising=False)
    with serve() as fake:
        fake.cloud.delay = 0
        towards(fake, monkeypatch)
        fake.faults = Faults(at={5: "echo"}, verbs=("POST",))
        words = ["provision", str(folder), "--apply", "--yes", "--max-cost", "1000000"]
        assert main(words) == 4
        assert main(words) == 0
        assert main(["sweep", "--project", "yard-1"]) == 0
        assert main(["provision", str(folder), "--destroy", "--yes"]) == 0
        assert fake.cloud.resources == {}
        assert all(f"Bearer {TOKEN}" in heard for heard in fake.heard)
    output = capsys.readouterr()
    assert "[redacted]" in output.out  # the server echoed it, and it was redacted
    assert TOKEN not in output.out + output.err
    for path in tmp_path.rglob("*"):
        if path.is_file() and "site" not in path.parts:
            assert TOKEN.encode() not in path.read_bytes(), path


def test_token_is_sent_only_to_google() -> None:
    requests = []
    endpoint = GoogleTransport(token=lambda: requests.append(1) or TOKEN)  # type: ignore[func-returns-value]
    for url in (
        "https://evil.example/compute.googleapis.com/",
        "http://compute.googleapis.com/",
        "https://a.googleapis.com.evil/",
    ):
        with pytest.raises(ValueError, match="not a Google API URL"):
            endpoint.send("GET", url)
    assert not requests


@pytest.mark.parametrize(
    "base", ["http://example.com", "https://127.0.0.1:1", "http://127.0.0.1.evil.example", "x"]
)
def test_local_transport_accepts_only_loopback(base: str) -> None:
    with pytest.raises(InputError, match="GPUYARD_ENDPOINT"):
        LocalTransport(base=base)


def test_missing_google_auth_reports_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(ExternalError, match=r"pip install 'gpuyard\[gcp\]'"):
        application_default_token()


@pytest.mark.usefixtures("google_auth")
def test_missing_login_reports_login_command(tmp_path: Path) -> None:
    (tmp_path / "site" / "google" / "auth" / "__init__.py").write_text(
        f"def default(scopes):\n    raise RuntimeError('{TOKEN}')\n", encoding="utf-8"
    )
    with pytest.raises(ExternalError, match="gcloud auth application-default login") as caught:
        application_default_token()
    assert TOKEN not in str(caught.value)


def test_redacted_removes_tokens() -> None:
    assert redacted("denied to Bearer abc.def-1, sorry") == "denied to [redacted], sorry"
    assert "ya29" not in redacted("token ya29.a0AfH6SM_x-y expired")


def test_offline_commands_do_not_import_google_auth() -> None:
    code = "import gpuyard.cli.provision, gpuyard.cli.sweep, sys; sys.exit('google.auth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_apply_without_network_raises_external_error(tmp_path: Path) -> None:
    with apply_run(tmp_path, "http://127.0.0.1:9", job_files(), LABELS["plan-hash"]) as held:
        with pytest.raises(ExternalError, match="no response after 6 tries"):
            apply(held)
        assert all(row.outcome == "failed" for row in destroy(held))

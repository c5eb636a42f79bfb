"""Credentials: asked for late, kept nowhere, sent to Google alone."""

from __future__ import annotations

import http.client
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuyard.cli import main
from gpuyard.errors import InputError, RefusedError
from gpuyard.provision.apply import apply, destroy
from gpuyard.provision.apply import endpoint as endpoints
from gpuyard.provision.apply.credentials import application_default_token
from gpuyard.provision.apply.endpoint import GoogleEndpoint, LocalEndpoint, redacted

from ..fake.server import Fake, Faults, serve
from .folders import render
from .vertex import LABELS, job_files
from .works import work

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
    """Sends what is meant for Google to the fake, headers and all."""
    port = int(fake.url.rsplit(":", 1)[1])

    class Loop(http.client.HTTPConnection):
        def connect(self) -> None:
            self.host, self.port, kept = "127.0.0.1", port, (self.host, self.port)
            super().connect()
            self.host, self.port = kept

    monkeypatch.setattr(endpoints.http.client, "HTTPSConnection", Loop)


@pytest.fixture
def google_auth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A google-auth that gives a token."""
    package = tmp_path / "site" / "google" / "auth" / "transport"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text(AUTH, encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "requests.py").write_text("class Request: pass\n", encoding="utf-8")
    for name in [name for name in sys.modules if name == "google" or name.startswith("google.auth")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    for name in [name for name in sys.modules if name == "google" or name.startswith("google.auth")]:
        del sys.modules[name]


@pytest.mark.usefixtures("google_auth")
def test_the_token_is_sent_and_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
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
    told = capsys.readouterr()
    assert "[redacted]" in told.out  # the server said it back, and it was taken out
    assert TOKEN not in told.out + told.err
    for path in tmp_path.rglob("*"):
        if path.is_file() and "site" not in path.parts:
            assert TOKEN.encode() not in path.read_bytes(), path


def test_a_token_goes_to_google_alone() -> None:
    asked = []
    endpoint = GoogleEndpoint(token=lambda: asked.append(1) or TOKEN)  # type: ignore[func-returns-value]
    for url in (
        "https://evil.example/compute.googleapis.com/",
        "http://compute.googleapis.com/",
        "https://a.googleapis.com.evil/",
    ):
        with pytest.raises(ValueError, match="not an address"):
            endpoint.send("GET", url)
    assert not asked


@pytest.mark.parametrize("base", ["http://example.com", "https://127.0.0.1:1", "http://127.0.0.1.evil.example", "x"])
def test_only_this_machine_can_stand_for_google(base: str) -> None:
    with pytest.raises(InputError, match="GPUYARD_ENDPOINT"):
        LocalEndpoint(base=base)


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(RefusedError, match=r"pip install 'gpuyard\[gcp\]'"):
        application_default_token()


@pytest.mark.usefixtures("google_auth")
def test_without_a_login_it_says_how_to_log_in(tmp_path: Path) -> None:
    (tmp_path / "site" / "google" / "auth" / "__init__.py").write_text(
        f"def default(scopes):\n    raise RuntimeError('{TOKEN}')\n", encoding="utf-8"
    )
    with pytest.raises(RefusedError, match="gcloud auth application-default login") as caught:
        application_default_token()
    assert TOKEN not in str(caught.value)


def test_tokens_are_taken_out_of_texts() -> None:
    assert redacted("denied to Bearer abc.def-1, sorry") == "denied to [redacted], sorry"
    assert "ya29" not in redacted("token ya29.a0AfH6SM_x-y expired")


def test_the_offline_verbs_load_no_library_of_credentials() -> None:
    code = "import gpuyard.cli.provision, gpuyard.cli.sweep, sys; sys.exit('google.auth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_a_network_it_says_so_and_the_journal_stays(tmp_path: Path) -> None:
    with work(tmp_path, "http://127.0.0.1:9", job_files(), LABELS["plan-hash"]) as held:
        with pytest.raises(RefusedError, match="no answer after 6 tries"):
            apply(held)
        assert all(row.end == "failed" for row in destroy(held))

"""A state directory with plans, data, runs and models, some with hostile names and contents."""

from __future__ import annotations

import http.client
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.app.data import run_data
from gpuyard.app.up import up
from gpuyard.app.workspace import open_workspace
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics
from gpuyard.jobs.spec import EngineSpec
from gpuyard.registry.bundle import Metric, ModelBundle, ModelLineage, Tag, Tensor, write_bundle
from gpuyard.registry.registry import Registry
from gpuyard.serving.spec import AccessSpec
from gpuyard.web.server import WebServer, open_site

from .chromium import Browser

HARM = """<script>document.title="harm"</script><img src=x onerror='document.title="harm"'>"""
ONPREM = """
task: pretraining
name: onprem
model: llama-3-70b
data: {tokens: 1T, sequence: 8192, size: 4TB, location: /lustre/tokens}
training: {global_batch: 1024}
requirements: {precision: bf16}
where: {provider: onprem, platform: slurm, inventory: {dgx-h100: 16}, switch: qfx5240-64od}
"""


def _bundle(folder: Path, score: float) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(str(score).encode())
    (folder / "transform.json").write_text("{}")
    tensor = Tensor(name="x", dtype="float32", shape=(-1, 3))
    lineage = ModelLineage(data="abc", code="gpuyard 0", parameters=(Tag(name=HARM, value=HARM),))
    write_bundle(
        folder,
        ModelBundle(
            kind="classification",
            trainer="trees",
            framework=HARM,
            inputs=(tensor,),
            outputs=(tensor,),
            classes=("no", "yes"),
            parameters_count=1200,
            metrics=(Metric(name="roc_auc", value=score),),
            lineage=lineage,
        ),
    )
    return folder


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A plan with its fabric and simulation, data, a run, a model with two versions."""
    folder = tmp_path_factory.mktemp("web")
    home = Home(path=folder / "home")
    (folder / "onprem.yaml").write_text(ONPREM)
    up(open_workspace(folder / "onprem.yaml", home=home), until="simulate")
    (home.path / "up" / HARM.replace("/", "")).mkdir()
    quoted = HARM.replace('"', '""')
    (folder / "table.csv").write_text(
        f'a,"{quoted}",label\n' + "".join(f'{n % 17},"{quoted}",{n % 2}\n' for n in range(60)),
        encoding="utf-8",
    )
    (folder / "data.yaml").write_text("source: table.csv\nlabel: label\nsplit: {test: 0.2}\n")
    run_data(folder / "data.yaml", out=home.data / "table")
    ledger = Ledger(home=home)
    run = ledger.begin(
        name=HARM,
        workload=f"# {HARM}\n",
        engine=EngineSpec(name="local"),
        stages=("train", "deploy"),
    )
    ledger.start(run.id, "train")
    metrics = folder / "metrics.jsonl"
    metrics.write_text(
        "".join(f'{{"step": {n}, "loss": {1 / (n + 1)}, "samples_per_s": 100}}\n' for n in range(9))
    )
    import_metrics(ledger, run.id, "train", metrics)
    ledger.finish(run.id, "train", state="failed", error=HARM)
    ledger.end(run.id, "failed", HARM)
    registry = Registry(home=home)
    registry.register("wine", _bundle(folder / "first", 0.8))
    registry.register("wine", _bundle(folder / "second", 0.9))
    return home


def _serve(site: WebServer) -> Iterator[WebServer]:
    """Serve the site for the duration of a test."""
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield site
    site.shutdown()
    thread.join()
    site.server_close()


@pytest.fixture(params=[False])
def site(home: Home, request: pytest.FixtureRequest) -> Iterator[WebServer]:
    """The site on loopback: read-only, or with actions when parametrized with True."""
    yield from _serve(open_site(home, port=0, acts=request.param))


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1", "no Chromium"
        pytest.skip("no Chromium")
    with Browser(program, tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def guarded(home: Home) -> Iterator[WebServer]:
    """The site on all addresses, with its token."""
    yield from _serve(open_site(home, host="0.0.0.0", port=0, access=AccessSpec(insecure=True)))


class Response:
    """Status, headers and text of a response."""

    def __init__(
        self, site: WebServer, method: str, path: str, headers: dict[str, str], body: str | None
    ) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", site.server_address[1], timeout=120)
        try:
            connection.request(method, path, body=body, headers=headers)
            reply = connection.getresponse()
            self.status, self.headers = reply.status, reply.headers
            self.text = reply.read().decode()
        finally:
            connection.close()


def request(
    site: WebServer,
    path: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: str | None = None,
) -> Response:
    """Send one request."""
    return Response(site, method, path, headers or {}, body)

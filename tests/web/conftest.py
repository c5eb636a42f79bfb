"""A state directory with something of everything, some of it with names and contents that mean harm."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.app.data import run_data
from gpuyard.app.up import up
from gpuyard.home import Home
from gpuyard.jobs import EngineSpec, Ledger, import_metrics
from gpuyard.registry import Bundle, Lineage, Metric, Pair, Registry, Tensor, write_bundle
from gpuyard.web import Site, open_site

HARM = """<script>document.title="harm"</script><img src=x onerror='document.title="harm"'>"""
HALL = """
task: pretraining
name: hall
model: llama-3-70b
data: {tokens: 1T, sequence: 8192, size: 4TB, location: /lustre/tokens}
training: {global_batch: 1024}
requirements: {precision: bf16}
where: {provider: onprem, platform: slurm, inventory: {dgx-h100: 16}, switch: qfx5240-64od}
"""


def _bundle(folder: Path, score: float) -> Path:
    """A model."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(str(score).encode())
    (folder / "transform.json").write_text("{}")
    tensor = Tensor(name="x", dtype="float32", shape=(-1, 3))
    lineage = Lineage(data="abc", code="gpuyard 0", parameters=(Pair(name=HARM, value=HARM),))
    write_bundle(folder, Bundle(
        kind="classification", trainer="trees", framework=HARM, inputs=(tensor,), outputs=(tensor,),
        classes=("no", "yes"), parameters_count=1200, metrics=(Metric(name="roc_auc", value=score),), lineage=lineage,
    ))  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A plan with its fabric and simulation, data, a run, a model with two versions."""
    folder = tmp_path_factory.mktemp("web")
    own = Home(path=folder / "home")
    (folder / "hall.yaml").write_text(HALL)
    up(folder / "hall.yaml", home=own, until="simulate")
    (own.path / "up" / HARM.replace("/", "")).mkdir()
    quoted = HARM.replace('"', '""')
    (folder / "table.csv").write_text(
        f'a,"{quoted}",label\n' + "".join(f'{n % 17},"{quoted}",{n % 2}\n' for n in range(60)), encoding="utf-8"
    )
    (folder / "data.yaml").write_text("source: table.csv\nlabel: label\nsplit: {test: 0.2}\n")
    run_data(folder / "data.yaml", out=own.data / "table")
    ledger = Ledger(home=own)
    run = ledger.begin(name=HARM, workload=f"# {HARM}\n", engine=EngineSpec(name="local"), stages=("train", "deploy"))
    ledger.start(run.id, "train")
    metrics = folder / "metrics.jsonl"
    metrics.write_text("".join(f'{{"step": {n}, "loss": {1 / (n + 1)}, "samples_per_s": 100}}\n' for n in range(9)))
    import_metrics(ledger, run.id, "train", metrics)
    ledger.finish(run.id, "train", state="failed", error=HARM)
    ledger.end(run.id, "failed", HARM)
    registry = Registry(home=own)
    registry.register("wine", _bundle(folder / "first", 0.8))
    registry.register("wine", _bundle(folder / "second", 0.9))
    return own


def _served(site: Site) -> Iterator[Site]:
    """The site while it is used."""
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield site
    site.shutdown()
    thread.join()
    site.server_close()


@pytest.fixture(params=[False])
def site(home: Home, request: pytest.FixtureRequest) -> Iterator[Site]:
    """The page on loopback: read-only, or with actions where a test asks for them."""
    yield from _served(open_site(home, port=0, acts=request.param))


@pytest.fixture
def guarded(home: Home) -> Iterator[Site]:
    """The page on every address, with its token."""
    yield from _served(open_site(home, host="0.0.0.0", port=0))


class Answer:
    """What came back."""

    def __init__(self, site: Site, method: str, path: str, headers: dict[str, str], body: str | None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", site.server_address[1], timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            got = connection.getresponse()
            self.status, self.headers, self.text = got.status, got.headers, got.read().decode()
        finally:
            connection.close()


def ask(
    site: Site, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: str | None = None
) -> Answer:
    """One request."""
    return Answer(site, method, path, headers or {}, body)

"""The server keeps its published contract, its memory and its requests."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import jsonschema
import pytest

from gpuyard import __version__
from gpuyard.home import Home
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.openapi import openapi
from gpuyard.serving.spec import ServedModel

from .cases import LONG_S, Load, ask, bundle, children, management, register, rows, serving, until

if os.environ.get("GPUYARD_REQUIRE_ALL") != "1":
    pytest.importorskip("schemathesis")
from .contract import footprint, send_generated

pytestmark = pytest.mark.slow
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
BODY = json.dumps(rows((0.5, -1.0, 2.0, 0.25))).encode()
CLIENTS = 4


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    base = tmp_path_factory.mktemp("contract")
    home = Home(path=base / "home")
    for name in ("plain", "people", "spare"):
        register(home, name, bundle(base / name, columns=name == "people"))
    return home


@pytest.fixture(scope="module")
def endpoint(home: Home) -> Iterator[Endpoint]:
    mounts = tuple(ServedModel(name=name, reference=name) for name in ("plain", "people", "spare"))
    with serving(home, mounts) as endpoint:
        yield endpoint


def test_document_is_published_and_up_to_date(endpoint: Endpoint) -> None:
    tree = openapi(__version__).plain()
    assert json.loads(DOCUMENT.read_text(encoding="utf-8")) == tree, "run python tools/reference.py"
    assert ask(f"{endpoint.url}/openapi.json") == (200, tree)


def test_metadata_and_answers_fit_their_schemas(endpoint: Endpoint) -> None:
    tree = openapi(__version__).plain()
    assert isinstance(tree, dict)
    for path, body, name in (
        ("/", None, "Service"),
        ("/v2", None, "Server"),
        ("/v2/models/people", None, "Model"),
        ("/v2/models/plain/infer", BODY, "InferenceResponse"),
        ("/v2/repository/index", b"", "Index"),
        ("/v1/models", None, "LanguageModels"),
        ("/nothing", None, "Error"),
    ):
        schema = {"$ref": f"#/components/schemas/{name}", "components": tree["components"]}
        jsonschema.validate(ask(f"{endpoint.url}{path}", body)[1], schema)


def test_generated_requests_keep_the_contract(endpoint: Endpoint, home: Home) -> None:
    before = footprint(endpoint.pid)
    statuses = send_generated(endpoint.url, management(home), 300)
    assert sum(statuses.values()) >= 300
    assert {200, 400, 404} <= set(statuses), statuses
    metrics = str(ask(f"{endpoint.url}/metrics")[1])
    for model in ("plain", "people"):  # they did reach the models
        assert f'gpuyard_requests_total{{model="{model}",version="1",code="200"}}' in metrics
    # The server closes connections a moment after their clients.
    until(lambda: footprint(endpoint.pid)[1] <= before[1] + 4)
    assert ask(f"{endpoint.url}/v2/models/plain/infer", BODY)[0] == 200


def test_memory_and_descriptors_do_not_grow(endpoint: Endpoint) -> None:
    parts = urlsplit(endpoint.url)
    link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LONG_S)

    def send(count: int) -> tuple[int, int]:
        for number in range(count):
            if number % 10 == 0:
                link.close()  # a new connection
            body = BODY if number % 5 else b"{"
            link.request("POST", "/v2/models/plain/infer", body)
            response = link.getresponse()
            response.read()
            assert response.status == (200 if number % 5 else 400)
        link.close()
        return footprint(endpoint.pid)

    send(1000)
    before = send(1000)
    send(4000)
    until(lambda: footprint(endpoint.pid)[1] <= before[1] + 4)
    # 2.5 kB per request would be a leak.
    until(lambda: footprint(endpoint.pid)[0] <= before[0] + 10_000_000)


def test_killed_worker_loses_only_requests_in_flight(home: Home) -> None:
    mounts = (ServedModel(name="plain", reference="plain"),)
    with (
        serving(
            home, mounts, name="killed", folder=str(home.path / "killed"), workers=2
        ) as endpoint,
        Load(endpoint.url, "plain", BODY, clients=CLIENTS) as load,
    ):
        until(lambda: len(load.answers) > 200)
        victim = max(children(endpoint.pid))
        os.kill(victim, signal.SIGKILL)
        until(lambda: victim not in children(endpoint.pid))
        until(lambda: len(children(endpoint.pid)) == 2)
        count = len(load.answers)
        until(lambda: len(load.answers) > count + 500)
    assert {status for status, _ in load.answers} == {200}
    # One request per client at most was in flight, or was sent on its connection before it closed.
    assert len(load.failures) <= 2 * CLIENTS, load.failures

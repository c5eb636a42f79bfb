"""Workers that die again and again are replaced; a server that cannot start ends with its error."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.home import Home
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.server import reserved_port
from gpuyard.serving.spec import ServedModel

from .cases import Load, ask, bundle, children, register, rows, serving, until

BODY = json.dumps(rows((0.5, -1.0, 2.0, 0.25))).encode()
MOUNTS = (ServedModel(name="m", reference="m"),)
CLIENTS = 4


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(path=tmp_path / "home")
    register(home, "m", bundle(tmp_path / "m"))
    return home


def kill_one(endpoint: Endpoint) -> None:
    """Kill a worker and wait until another process has taken its place."""
    before = children(endpoint.pid)
    os.kill(before[-1], signal.SIGKILL)
    until(lambda: len(now := children(endpoint.pid)) == len(before) and before[-1] not in now)


@pytest.mark.slow
def test_worker_killed_again_and_again_under_load_is_replaced(home: Home) -> None:
    with (
        serving(home, MOUNTS, workers=2) as endpoint,
        Load(endpoint.url, "m", BODY, clients=CLIENTS) as load,
    ):
        until(lambda: len(load.answers) > 50)
        kills = 4  # granian itself takes two within 5.5 s for a crash loop, and exits
        for _ in range(kills):
            kill_one(endpoint)
        count = len(load.answers)
        until(lambda: len(load.answers) > count + 200)
        assert Endpoints(home=home).get("s").state == "running"
    assert {status for status, _ in load.answers} == {200}
    # A client has one request in flight, and may send the next before it sees the closed connection.
    assert len(load.failures) <= 2 * CLIENTS * kills, load.failures


@pytest.mark.slow
def test_worker_killed_during_a_hot_swap_serves_the_new_version(home: Home, tmp_path: Path) -> None:
    mounts = (ServedModel(name="m", reference="m@champion"),)
    with (
        serving(home, mounts, workers=2) as endpoint,
        Load(endpoint.url, "m", BODY, clients=CLIENTS) as load,
    ):
        until(lambda: load.versions().get("1", 0) > 50)
        for number in (2, 3, 4):
            register(home, "m", bundle(tmp_path / f"v{number}", bias=float(number)))
            kill_one(endpoint)
            until(lambda number=number: load.versions().get(str(number), 0) > 50)

        def versions() -> set[str]:
            answers = [ask(f"{endpoint.url}/v2/models/m") for _ in range(20)]
            return {answer["versions"][0] for _, answer in answers}  # type: ignore[index]

        until(lambda: versions() == {"4"})
    assert {status for status, _ in load.answers} == {200}
    outputs: dict[str, set[float]] = {}
    for _, answer in load.answers:
        assert isinstance(answer, dict)
        outputs.setdefault(answer["model_version"], set()).add(answer["outputs"][0]["data"][0])
    assert [len(values) for values in outputs.values()] == [1, 1, 1, 1]


@pytest.mark.slow
def test_only_worker_killed_before_it_serves_again_comes_back(home: Home) -> None:
    def answers() -> bool:
        try:
            return ask(f"{endpoint.url}/v2/models/m/infer", BODY)[0] == 200
        except OSError:
            return False

    with serving(home, MOUNTS, workers=1) as endpoint:
        for _ in range(3):  # the second and third death come while the models load
            kill_one(endpoint)
        until(answers)
        port = int(endpoint.url.rpartition(":")[2])
        with pytest.raises(ExternalError), reserved_port("127.0.0.1", port):
            pass


@pytest.mark.slow
def test_server_stops_while_it_waits_for_a_dead_worker(home: Home) -> None:
    with serving(home, MOUNTS, workers=1) as endpoint:
        for _ in range(4):
            kill_one(endpoint)
        os.kill(endpoint.pid, signal.SIGTERM)
        until(lambda: Endpoints(home=home).get("s").state == "stopped")


def test_reserved_port_is_not_given_to_others() -> None:
    with reserved_port("127.0.0.1", 0) as port, socket.socket() as other:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        other.close()
        with socket.socket() as worker:  # as the workers bind
            worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            worker.bind(("127.0.0.1", port))
            worker.listen()
            with (
                pytest.raises(ExternalError, match="another --port"),
                reserved_port("127.0.0.1", port),
            ):
                pass

"""Versions that come and go while requests are answered: swap, canary, roll-back, killed workers."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError
from gpuyard.home import Home
from gpuyard.registry.registry import Registry
from gpuyard.serving.deploy import deploy
from gpuyard.serving.endpoints import Canary, Endpoints
from gpuyard.serving.server import folder_of
from gpuyard.serving.spec import CanaryGuardSpec, CanarySpec, ServedModel, ServerSettings

from .cases import Load, ask, bundle, children, management, register, rows, serving, until

BODY = json.dumps(rows((0.5, -1.0, 2.0, 0.25))).encode()
MOUNTS = (ServedModel(name="m", reference="m@champion"),)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(path=tmp_path / "home")
    register(found, "m", bundle(tmp_path / "one"))
    return found


def test_moved_alias_is_followed_without_failed_requests(home: Home, tmp_path: Path) -> None:
    with serving(home, MOUNTS) as endpoint, Load(endpoint.url, "m", BODY) as load:
        until(lambda: load.versions().get("1", 0) > 100)
        for number in (2, 3):
            assert (
                register(home, "m", bundle(tmp_path / f"v{number}", bias=float(number))) == number
            )
            until(lambda number=number: load.versions().get(str(number), 0) > 100)
        until(lambda: ask(f"{endpoint.url}/v2/models/m/versions/1/ready")[0] == 404)
        until(lambda: Endpoints(home=home).get("s").models == ("m/3",))
    assert load.failures == []
    assert {status for status, _ in load.answers} == {200}
    by_version: dict[str, set[float]] = {}
    for _, answer in load.answers:
        assert isinstance(answer, dict)
        by_version.setdefault(answer["model_version"], set()).add(answer["outputs"][0]["data"][0])
    assert [len(values) for values in by_version.values()] == [
        1,
        1,
        1,
    ]  # a version never answers for another


def test_version_that_fails_to_load_leaves_old_version_in_use(home: Home, tmp_path: Path) -> None:
    with serving(home, MOUNTS) as endpoint:
        version = register(home, "m", bundle(tmp_path / "two", bias=1.0), alias="challenger")
        Path(home.models / "m" / str(version) / "model.onnx").write_bytes(b"not a model")
        Registry(home=home).alias("m", "champion", version)  # only now does the server load it
        log = Path(endpoint.log)
        until(lambda: "is unchanged" in log.read_text(encoding="utf-8"))
        assert ask(f"{endpoint.url}/v2/models/m/infer", BODY)[1]["model_version"] == "1"  # type: ignore[index]


def test_version_with_other_inputs_or_classes_is_not_swapped_in(home: Home, tmp_path: Path) -> None:
    with serving(home, MOUNTS) as endpoint:
        register(home, "m", bundle(tmp_path / "two", sizes=(4, 8, 3)))  # a third class
        metrics = f"{endpoint.url}/metrics"
        until(lambda: "gpuyard_swaps_refused 1" in str(ask(metrics)[1]))
        until(lambda: "not version 2" in Path(endpoint.log).read_text(encoding="utf-8"))
        assert ask(f"{endpoint.url}/v2/models/m/infer", BODY)[1]["model_version"] == "1"  # type: ignore[index]
        register(home, "m", bundle(tmp_path / "three", columns=True))  # other inputs
        until(lambda: "not version 3" in Path(endpoint.log).read_text(encoding="utf-8"))
        register(home, "m", bundle(tmp_path / "four", bias=1.0))
        url = f"{endpoint.url}/v2/models/m/infer"
        until(lambda: ask(url, BODY)[1]["model_version"] == "4")  # type: ignore[index]
        until(lambda: "gpuyard_swaps_refused 0" in str(ask(metrics)[1]))


def test_models_are_loaded_and_left_on_order_by_all_workers(home: Home, tmp_path: Path) -> None:
    register(home, "m", bundle(tmp_path / "two", bias=1.0), alias="challenger")
    with serving(home, (ServedModel(name="m", reference="m/1"),), workers=2) as endpoint:
        order, own = f"{endpoint.url}/v2/repository/models/m", management(home)
        assert ask(f"{order}/load", {"parameters": {"version": "9"}}, own)[0] == 400
        assert ask(f"{order}/load", {"parameters": {"version": "challenger"}}, own) == (
            200,
            {"name": "m", "version": "2"},
        )

        def seen(path: str) -> set[int | str]:
            answers = [ask(f"{endpoint.url}/v2/models/m{path}") for _ in range(30)]
            return {
                status if status != 200 else answer["versions"][0] for status, answer in answers
            }  # type: ignore[index]

        until(lambda: seen("") == {"2"})
        assert ask(f"{order}/unload", b"", own)[0] == 200
        until(lambda: seen("") == {404})
        until(lambda: Endpoints(home=home).get("s").models == ())
        until(lambda: ask(f"{endpoint.url}/v2/health/ready")[0] == 503)


def test_management_token_from_environment_is_used(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUYARD_SERVE_TOKEN", "s3cret")
    with serving(home, MOUNTS) as endpoint:
        order = f"{endpoint.url}/v2/repository/models/m/load"
        assert ask(order, {})[0] == 401
        assert ask(order, {}, {"Authorization": "Bearer wrong"})[0] == 401
        assert ask(order, {}, {"Authorization": "Bearer s3cret"})[0] == 200


def test_healthy_canary_gets_its_share_and_stays(home: Home, tmp_path: Path) -> None:
    register(home, "m", bundle(tmp_path / "two", bias=1.0), alias="challenger")
    guard = CanaryGuardSpec(slowdown=1e6)  # latencies on a loaded machine vary
    canary = CanarySpec(model="m@challenger", share_ratio=0.25, guard=guard)
    with serving(home, MOUNTS, canaries=(canary,)) as endpoint:
        versions = [
            ask(f"{endpoint.url}/v2/models/m/infer", BODY)[1]["model_version"] for _ in range(200)
        ]  # type: ignore[index]
        assert versions.count("2") == 50
        assert endpoint.canaries == (Canary(model="m/2", share_ratio=0.25),)
        Registry(home=home).alias("m", "champion", 2)  # promoted: it answers everything
        until(lambda: ask(f"{endpoint.url}/v2/models/m")[1]["versions"] == ["2"])  # type: ignore[index]
        until(
            lambda: (now := Endpoints(home=home).get("s")).models == ("m/2",) and not now.canaries
        )


def test_failing_canary_rolls_back_without_client_errors(home: Home, tmp_path: Path) -> None:
    register(home, "m", bundle(tmp_path / "two", broken=True), alias="challenger")
    canary = CanarySpec(model="m@challenger", share_ratio=0.5, guard=CanaryGuardSpec(requests=20))
    with serving(home, MOUNTS, canaries=(canary,), workers=2) as endpoint:
        with Load(endpoint.url, "m", BODY) as load:
            until(lambda: ask(f"{endpoint.url}/v2/models/m")[1]["versions"] == ["1"])  # type: ignore[index]
            until(
                lambda: all(
                    ask(f"{endpoint.url}/v2/models/m")[1]["versions"] == ["1"] for _ in range(20)
                )
            )  # type: ignore[index]
        until(lambda: not Endpoints(home=home).get("s").canaries)
        assert load.failures == []
        assert {status for status, _ in load.answers} == {200}
        assert set(load.versions()) == {"1"}
        until(
            lambda: (
                'gpuyard_model_failures_total{model="m",version="2"}'
                in str(ask(f"{endpoint.url}/metrics")[1])
            )
        )
        log = Path(endpoint.log)
        reason = r"m/2 is rolled back: failure rate \d+\.\d%, active version 0.0%"
        until(lambda: re.search(reason, log.read_text(encoding="utf-8")) is not None)
        assert (
            log.read_text(encoding="utf-8").count("not finite") < 20
        )  # told, and not once for every request


def test_killed_worker_is_replaced_and_its_counts_survive(home: Home) -> None:
    def total(url: str) -> int:
        text = str(ask(f"{url}/metrics")[1])
        return sum(
            int(count)
            for count in re.findall(r'requests_total{model="m",version="1",code="200"} (\d+)', text)
        )

    with serving(home, MOUNTS, workers=2) as endpoint:
        for _ in range(40):
            assert ask(f"{endpoint.url}/v2/models/m/infer", BODY)[0] == 200
        until(lambda: total(endpoint.url) == 40)  # what one worker tells has been written
        before = children(endpoint.pid)
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(set(children(endpoint.pid)) - set(before)) == 1)
        until(lambda: answers(endpoint.url) == 20)
        until(lambda: total(endpoint.url) >= 40)


def answers(url: str) -> int:
    """How many of twenty requests are answered; one may meet a worker that is just being replaced."""
    count = 0
    for _ in range(20):
        try:
            count += ask(f"{url}/v2/models/m/infer", BODY)[0] == 200
        except OSError:
            continue
    return count


def test_workers_go_when_the_main_process_is_killed(home: Home) -> None:
    with serving(home, MOUNTS, workers=2) as endpoint:
        workers = children(endpoint.pid)
        os.kill(endpoint.pid, signal.SIGKILL)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
        assert Endpoints(home=home).get("s").state == "lost"


def test_one_service_of_a_name_and_one_server_of_a_port(home: Home) -> None:
    with serving(home, MOUNTS) as endpoint:
        settings = ServerSettings(
            name="s", mounts=MOUNTS, home=str(home.path), folder=str(folder_of(home, "s")), port=0
        )
        with pytest.raises(ExternalError, match="already running"):
            deploy(settings)
        port = int(endpoint.url.rpartition(":")[2])
        with pytest.raises(ExternalError, match="cannot listen"):
            deploy(
                ServerSettings(
                    name="t",
                    mounts=MOUNTS,
                    home=str(home.path),
                    folder=str(folder_of(home, "t")),
                    port=port,
                )
            )
        assert Endpoints(home=home).get("s").state == "running"
    assert Endpoints(home=home).get("s").state == "stopped"

"""Kubernetes: the objects, the ways in, and failures in plain words."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.document.encode import dump_json
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError, InputError
from gpuyard.jobs.engines.kubernetes import access
from gpuyard.jobs.engines.kubernetes.kubernetes_engine import KubernetesEngine
from gpuyard.jobs.engines.kubernetes.manifest import manifest
from gpuyard.jobs.spec import EngineSpec, check_spec
from gpuyard.jobs.task import Task, TaskStatus
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.lint import lint

SPEC = EngineSpec(
    name="kubernetes", image="python:3", queue="lab", volume_claim="work", volume_path="/mnt/jobs"
)
TASK = Task(
    id="train-1", argv=("python", "x.py"), folder="/mnt/jobs/x", nodes=4, processes_per_node=8, chips_per_process=1,
    memory_per_process_bytes=2**30, time_limit_s=100.5, retries=3,
)  # fmt: skip
SINGLE = replace(TASK, nodes=1, processes_per_node=1, copies=5)


@pytest.mark.parametrize("task", [TASK, SINGLE, replace(SINGLE, copies=1, chips_per_process=0)])
def test_objects_keep_the_published_schemas(task: Task) -> None:
    tree = manifest(task, SPEC)
    found = lint([Artefact(name="x.json", text=dump_json(tree))], load_catalog()).findings
    assert not [str(each) for each in found if each.rule == "schema"]
    assert not [str(each) for each in found if each.severity == "error"]


def test_rendezvous_uses_jobset_and_other_tasks_use_job() -> None:
    tree = json.loads(dump_json(manifest(TASK, SPEC)))
    job = tree["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (tree["kind"], tree["spec"]["failurePolicy"]["maxRestarts"]) == ("JobSet", 3)
    assert (job["completions"], job["backoffLimit"], job["activeDeadlineSeconds"]) == (4, 0, 101)
    container = job["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    given = {row["name"]: row.get("value") for row in container["env"]}
    assert (given["WORLD_SIZE"], given["MASTER_ADDR"]) == ("32", "train-1-workers-0-0.train-1")
    single = json.loads(dump_json(manifest(SINGLE, SPEC)))
    assert (
        single["kind"],
        single["spec"]["completions"],
        single["spec"]["backoffLimitPerIndex"],
    ) == ("Job", 5, 3)
    assert single["spec"]["suspend"] is True


class Scripted(http.server.BaseHTTPRequestHandler):
    """Answers what the test put into `answers`, and keeps what was asked."""

    answers: list[tuple[int, Plain]] = []
    asked: list[tuple[str, str, str]] = []

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """The next answer; the last one stays."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.command, self.path, self.headers.get("Authorization", "")))
        code, tree = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        body = json.dumps(tree).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a scripted API server; waits between questions are cut."""
    monkeypatch.setattr("gpuyard.retry.RetryPolicy.wait_s", lambda *_: 0.0)
    monkeypatch.setattr(Scripted, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def config(folder: Path, server: str, user: str) -> str:
    """A kubeconfig."""
    path = folder / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        "contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: no, user: u}}]\n"
    )
    return str(path)


def pod(phase: str, state: dict[str, Plain], **status: Plain) -> Plain:
    """A pod as the API lists it."""
    states: list[Plain] = [{"name": "task", "state": state}] if state else []
    return {
        "metadata": {"name": "p", "labels": {}},
        "status": {"phase": phase, "containerStatuses": states, **status},
    }


def asked(server: str, folder: Path, pods: list[Plain], conditions: list[Plain]) -> TaskStatus:
    """The status of a Job with such pods."""
    job: Plain = {
        "metadata": {},
        "spec": {},
        "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": conditions},
    }
    Scripted.answers = [(200, job), (200, {"items": pods})]
    engine = KubernetesEngine(spec=replace(SPEC, config=config(folder, server, "{token: t}")))
    return engine.status(engine.handle(replace(SINGLE, folder=str(folder))))


FAILED: Plain = {
    "type": "Failed",
    "status": "True",
    "reason": "FailedIndexes",
    "message": "Job has failed indexes",
}


@pytest.mark.parametrize(
    ("given", "conditions", "state", "words"),
    [
        (
            pod(
                "Pending",
                {
                    "waiting": {
                        "reason": "ImagePullBackOff",
                        "message": 'Back-off pulling image "x"',
                    }
                },
            ),
            [],
            "pending",
            "the image cannot be pulled",
        ),
        (
            pod(
                "Pending",
                {},
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
                    }
                ],
            ),
            [],
            "pending",
            "no node fits the pod (Unschedulable: 0/2 nodes",
        ),
        (
            pod("Failed", {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
            [FAILED],
            "failed",
            "out of memory",
        ),
        (
            pod("Failed", {"terminated": {"exitCode": 3, "reason": "Error"}}),
            [FAILED],
            "failed",
            "exit code 3",
        ),
        (
            pod("Failed", {"terminated": {"exitCode": 139, "reason": "Error"}}),
            [FAILED],
            "failed",
            "killed by SIGSEGV",
        ),
        (
            pod("Failed", {}, reason="Evicted", message="The node was low on resource: memory."),
            [FAILED],
            "failed",
            "evicted",
        ),
        (pod("Running", {"running": {}}), [], "running", ""),
    ],
)
def test_failures_in_plain_words(
    server: str, tmp_path: Path, given: Plain, conditions: list[Plain], state: str, words: str
) -> None:
    status = asked(server, tmp_path, [given], conditions)
    assert status.state == state
    assert words in status.reason


def test_deadline_is_reported_as_time_limit(server: str, tmp_path: Path) -> None:
    late: Plain = {
        "type": "Failed",
        "status": "True",
        "reason": "DeadlineExceeded",
        "message": "Job was active longer",
    }
    status = asked(server, tmp_path, [], [late])
    assert (status.state, status.reason, status.exit_code) == ("failed", "time limit", None)


def test_kubeconfig_token_file_and_exec_plugin_access(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    plugin = 'import json; print(json.dumps({"status": {"token": "from-plugin"}}))'
    command = json.dumps(
        {
            "exec": {
                "command": sys.executable,
                "args": ["-c", plugin],
                "apiVersion": "client.authentication.k8s.io/v1",
            }
        }
    )
    for user, token in (
        ("{token: plain}", "plain"),
        ("{tokenFile: token}", "from-file"),
        (command, "from-plugin"),
    ):
        way = access.open_access(replace(SPEC, config=config(tmp_path, server, user)))
        assert way.api.authorization == f"Bearer {token}"
        assert way.namespace == "default"
    with pytest.raises(InputError, match='no cluster named "no"'):
        access.open_access(
            replace(SPEC, config=config(tmp_path, server, "{token: t}"), context="b")
        )
    with pytest.raises(ExternalError, match="no such kubeconfig"):
        access.open_access(replace(SPEC, config=str(tmp_path / "none")))
    broken = json.dumps({"exec": {"command": "/no/such/plugin"}})
    with pytest.raises(ExternalError, match="returned no credential"):
        access.open_access(replace(SPEC, config=config(tmp_path, server, broken)))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(ExternalError, match="no such kubeconfig"):
        access.open_access(SPEC)


def test_answers_that_are_no(server: str, tmp_path: Path) -> None:
    spec = replace(SPEC, config=config(tmp_path, server, "{token: t}"))
    engine, task = KubernetesEngine(spec=spec), replace(TASK, folder=str(tmp_path))
    Scripted.answers = [(429, {"message": "slow down"}), (503, {}), (201, {})]
    assert engine.submit(task) == engine.handle(task)
    assert len(Scripted.asked) == 3
    for code, words in (
        (403, "ask for the rights"),
        (404, "install the JobSet controller"),
        (401, "renew"),
    ):
        Scripted.answers = [(code, {"kind": "Status", "message": "jobsets is forbidden"})]
        with pytest.raises(ExternalError, match=words):
            engine.submit(task)
    Scripted.answers = [(409, {"message": "already exists"})]
    assert engine.submit(task) == engine.handle(task)


def test_incomplete_kubernetes_section_raises_input_error() -> None:
    with pytest.raises(InputError) as error:
        check_spec(EngineSpec(name="kubernetes", volume_claim="x", address="cluster:8265"))
    assert len(error.value.problems) == 3

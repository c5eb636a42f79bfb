"""A Kubernetes API server with the parts that a task meets, and nodes that run its containers as processes here.

Objects are held to the published schemas of Job and JobSet. The controllers do what theirs do: indexed pods with their
labels and annotations, retries by index, restarts of a set, deadlines, deletion in the foreground, pod logs that are
followed. Answers have the shape of a recorded 1.33 server.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuyard.catalog.load import load_catalog
from gpuyard.document.encode import dump_json
from gpuyard.jobs.engines import process_reaper
from gpuyard.jobs.rendezvous import free_port
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.lint import lint

Tree = dict[str, Any]
PATH = re.compile(
    r"/apis/(?:batch/v1|jobset\.x-k8s\.io/v1alpha2)/namespaces/(?P<namespace>[^/]+)/(?P<plural>jobs|jobsets)(?:/(?P<name>[^/?]+))?"
)
LOG = re.compile(r"/api/v1/namespaces/[^/]+/pods/(?P<name>[^/]+)/log")
CATALOG = load_catalog()
NODE_IPS = "127.0.0.1"  # what cluster DNS would answer for a pod's host name


def now() -> str:
    """The time as the API writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def condition(kind: str, reason: str, message: str) -> Tree:
    """A condition that has come true."""
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
    }


@dataclass(slots=True)
class Pod:
    """A pod and the process that stands for its container."""

    tree: Tree
    log: Path
    port: str
    process: subprocess.Popen[bytes] | None = None
    deleted: bool = False

    def start(self, image: str) -> None:
        """Pulls the image and runs the container, or says why not."""
        status = self.tree["status"]
        if image == "no/such:image":
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            status["containerStatuses"] = [
                {"name": "task", "ready": False, "state": {"waiting": waiting}}
            ]
            return
        container = self.tree["spec"]["containers"][0]
        if "nvidia.com/gpu" in container["resources"].get("limits", {}):
            message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message,
                }
            ]
            return
        marks = {**self.tree["metadata"]["annotations"], **self.tree["metadata"]["labels"]}
        environment = {
            "PATH": os.environ["PATH"],
            "JOB_COMPLETION_INDEX": marks["batch.kubernetes.io/job-completion-index"],
        }
        for row in container["env"]:
            field_path = row.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            name = field_path.partition("['")[2].removesuffix("']")
            environment[row["name"]] = row["value"] if "value" in row else marks.get(name, "")
        if not environment["MASTER_ADDR"][0].isdigit():
            environment |= {
                "MASTER_ADDR": NODE_IPS,
                "MASTER_PORT": self.port,
            }  # a pod has ports of its own
        with self.log.open("wb") as log:
            grace = str(self.tree["spec"]["terminationGracePeriodSeconds"])
            self.process = (
                subprocess.Popen(  # as a container's, everything below ends with its first process
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        process_reaper.__file__,
                        grace,
                        *container["command"],
                    ],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd=container.get("workingDir"),
                    start_new_session=True,
                )
            )
        status["phase"] = "Running"
        status["containerStatuses"] = [
            {"name": "task", "ready": True, "state": {"running": {"startedAt": now()}}}
        ]

    def look(self) -> None:
        """Notes that the container has ended."""
        code = self.process.poll() if self.process else None
        if code is None or self.tree["status"]["phase"] != "Running":
            return
        shown = code if code >= 0 else 128 - code
        reason = "Completed" if shown == 0 else "OOMKilled" if shown == 99 else "Error"
        self.end()
        ended = {"exitCode": shown, "reason": reason, "finishedAt": now()}
        self.tree["status"]["phase"] = "Succeeded" if shown == 0 else "Failed"
        self.tree["status"]["containerStatuses"] = [
            {"name": "task", "ready": False, "state": {"terminated": ended}}
        ]

    def end(self) -> None:
        """Ends the container: SIGTERM, its grace, SIGKILL."""
        if self.process and self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()

    @property
    def phase(self) -> str:
        """Where it is in its life."""
        return str(self.tree["status"]["phase"])


@dataclass(slots=True)
class Owner:
    """A Job, or a JobSet with its one Job."""

    tree: Tree
    pods: dict[str, Pod] = field(default_factory=dict)
    gone: list[Pod] = field(default_factory=list)
    restarts: int = 0
    port: str = field(default_factory=lambda: str(free_port()))
    failures: dict[int, int] = field(default_factory=dict)
    ended_indices: set[int] = field(default_factory=set)  # by a rule of podFailurePolicy
    began_s: float = field(default_factory=time.monotonic)

    @property
    def is_set(self) -> bool:
        """Whether it is a JobSet."""
        return str(self.tree["kind"]) == "JobSet"

    @property
    def job(self) -> Tree:
        """The specification of the Job."""
        tree: Tree = (
            self.tree["spec"]["replicatedJobs"][0]["template"]["spec"]
            if self.is_set
            else self.tree["spec"]
        )
        return tree

    def action(self, pod: Pod) -> str:
        """What the rules of podFailurePolicy do about a pod that failed; the first that matches counts."""
        (row,) = pod.tree["status"]["containerStatuses"]
        for rule in self.job.get("podFailurePolicy", {"rules": ()})["rules"]:
            codes = rule["onExitCodes"]
            assert (codes["operator"], codes["values"]) == ("In", sorted(codes["values"]))
            if (
                codes["containerName"] == row["name"]
                and row["state"]["terminated"]["exitCode"] in codes["values"]
            ):
                return str(rule["action"])
        return "Count"

    @property
    def ended(self) -> bool:
        """Whether it has a final condition."""
        return bool(self.tree["status"].get("conditions"))


class Cluster:
    """What the API server knows, and the controllers that act on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self.owners: dict[tuple[str, str], Owner] = {}
        self.requests: list[tuple[str, str]] = []
        self.busy = 0  # this many requests are answered with 429 first
        self.closed = threading.Event()

    def control(self) -> None:
        """The controllers, until the cluster is closed."""
        while not self.closed.wait(0.05):
            with self.lock:
                for key, owner in list(self.owners.items()):
                    self.reconcile(key, owner)

    def reconcile(self, key: tuple[str, str], owner: Owner) -> None:
        """One look at an object."""
        for pod in (*owner.pods.values(), *owner.gone):
            pod.look()
        if owner.tree["metadata"].get("deletionTimestamp"):
            self.delete(key, owner)
        elif not owner.ended:
            limit_s = owner.job.get("activeDeadlineSeconds")
            if limit_s and time.monotonic() - owner.began_s >= limit_s:
                self.fail(
                    owner, "DeadlineExceeded", "Job was active longer than specified deadline"
                )
            else:
                self.advance(owner)

    def advance(self, owner: Owner) -> None:
        """Makes missing pods, counts the ended ones."""
        name, count = owner.tree["metadata"]["name"], owner.job["completions"]
        live = {
            int(
                pod.tree["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            ): pod
            for pod in owner.pods.values()
            if not pod.deleted
        }
        failed = [index for index, pod in live.items() if pod.phase == "Failed"]
        if failed and owner.is_set:
            policy = owner.tree["spec"]["failurePolicy"]
            final = [
                rule
                for rule in policy.get("rules", ())
                if "PodFailurePolicy" in rule["onJobFailureReasons"]
            ]
            if any(owner.action(live[index]) == "FailJob" for index in failed) and final:
                assert final[0]["action"] == "FailJobSet"
                self.fail(
                    owner,
                    "FailJobSetFailurePolicyAction",
                    f"matched failure policy rule {final[0]['name']}",
                )
                return
            if owner.restarts >= owner.tree["spec"]["failurePolicy"]["maxRestarts"]:
                self.fail(
                    owner,
                    "FailedJobs",
                    f"jobset failed due to one or more job failures (first failed job: {name}-workers-0)",
                )
                return
            owner.restarts += 1
            owner.began_s = time.monotonic()
            for pod in owner.pods.values():
                pod.end()
            owner.gone += owner.pods.values()
            owner.pods, live = {}, {}
        for index in failed if not owner.is_set else ():
            ended = owner.action(live[index]) == "FailIndex"
            owner.failures[index] = owner.failures.get(index, 0) + 1
            if ended:
                owner.ended_indices.add(index)
            live.pop(index).deleted = True
        dead = {
            index
            for index, failures in owner.failures.items()
            if failures > owner.job["backoffLimitPerIndex"]
        }
        dead |= owner.ended_indices
        for index in range(count):
            if index not in live and index not in dead:
                live[index] = self.pod(owner, index)
        if dead and all(pod.phase == "Succeeded" for pod in live.values()):
            self.fail(owner, "FailedIndexes", "Job has failed indexes")
            return
        if len(live) == count and all(pod.phase == "Succeeded" for pod in live.values()):
            kind = "Completed" if owner.is_set else "Complete"
            owner.tree["status"]["conditions"] = [
                condition(kind, "AllJobsCompleted" if owner.is_set else "CompletionsReached", "")
            ]

    def pod(self, owner: Owner, index: int) -> Pod:
        """A new pod of an object."""
        name = owner.tree["metadata"]["name"]
        job = f"{name}-workers-0" if owner.is_set else name
        pod_name = f"{job}-{index}-{len(owner.pods) + len(owner.gone):05d}"
        labels = {"batch.kubernetes.io/job-name": job, "job-name": job}
        marks = {"batch.kubernetes.io/job-completion-index": str(index)}
        if owner.is_set:
            labels |= {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/restart-attempt": str(owner.restarts),
            }
        else:
            marks["batch.kubernetes.io/job-index-failure-count"] = str(owner.failures.get(index, 0))
        tree = {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": owner.job["template"]["spec"],
            "status": {"phase": "Pending"},
            "metadata": {
                "name": pod_name,
                "labels": labels,
                "annotations": marks,
                "creationTimestamp": now(),
            },
        }
        owner.tree["status"].setdefault("startTime", now())
        pod = owner.pods[pod_name] = Pod(
            tree=tree, log=self.folder / f"{pod_name}.log", port=owner.port
        )
        pod.start(tree["spec"]["containers"][0]["image"])
        return pod

    def fail(self, owner: Owner, reason: str, message: str) -> None:
        """The end of an object that failed; its pods end too."""
        owner.tree["status"]["conditions"] = [condition("Failed", reason, message)]
        for pod in owner.pods.values():
            pod.end()

    def delete(self, key: tuple[str, str], owner: Owner) -> None:
        """Foreground deletion: the pods first, with their grace, then the object."""
        running = [pod for pod in owner.pods.values() if pod.phase == "Running"]
        for pod in running:
            pod.end()
        if not running:
            del self.owners[key]

    def pods(self) -> list[Pod]:
        """Every pod there is."""
        with self.lock:
            return [pod for owner in self.owners.values() for pod in owner.pods.values()]

    def close(self) -> None:
        """Ends everything."""
        self.closed.set()
        with self.lock:
            for owner in self.owners.values():
                for pod in (*owner.pods.values(), *owner.gone):
                    pod.end()
                    if pod.process:
                        pod.process.wait()


def handler(cluster: Cluster, token: str) -> type[http.server.BaseHTTPRequestHandler]:
    """The API over a cluster."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Says nothing."""

        def answer(self, code: int, tree: Tree) -> None:
            body = json.dumps(tree).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def refuse(self, code: int, reason: str, message: str) -> None:
            self.answer(
                code,
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "status": "Failure",
                    "reason": reason,
                    "message": message,
                    "code": code,
                },
            )

        def body(self) -> Tree:
            tree: Tree = json.loads(
                self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"
            )
            return tree

        def route(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            body = self.body()
            cluster.requests.append((self.command, url.path))
            if self.headers.get("Authorization") != f"Bearer {token}":
                self.refuse(401, "Unauthorized", "Unauthorized")
                return
            with cluster.lock:
                if cluster.busy:
                    cluster.busy -= 1
                    self.refuse(429, "TooManyRequests", "the server has received too many requests")
                    return
            log = LOG.fullmatch(url.path)
            if log:
                self.log(log["name"])
            elif url.path.endswith("/pods"):
                self.list(urllib.parse.parse_qs(url.query)["labelSelector"][0])
            else:
                match = PATH.fullmatch(url.path)
                if not match:
                    self.refuse(404, "NotFound", "the server could not find the requested resource")
                    return
                with cluster.lock:
                    self.owner(match["plural"], match["name"], body)

        do_GET = do_POST = do_DELETE = route

        def owner(self, plural: str, name: str | None, body: Tree) -> None:
            key = (plural, name or body["metadata"]["name"])
            found = cluster.owners.get(key)
            if self.command == "POST":
                wrong = [
                    str(each)
                    for each in lint(
                        [Artefact(name="x.json", text=dump_json(body))], CATALOG
                    ).findings
                    if each.rule == "schema" and each.severity == "error"
                ]
                if wrong:
                    self.refuse(422, "Invalid", "; ".join(wrong))
                elif found:
                    self.refuse(409, "AlreadyExists", f'{plural} "{key[1]}" already exists')
                else:
                    body["metadata"]["creationTimestamp"] = now()
                    cluster.owners[key] = Owner(tree=body | {"status": {}})
                    self.answer(201, body)
            elif not found:
                self.refuse(404, "NotFound", f'{plural} "{key[1]}" not found')
            elif self.command == "DELETE":
                assert body["propagationPolicy"] == "Foreground"
                found.tree["metadata"]["deletionTimestamp"] = now()
                self.answer(200, found.tree)
            else:
                self.answer(200, found.tree)

        def list(self, selector: str) -> None:
            name, _, value = selector.partition("=")
            found = [
                pod.tree
                for pod in cluster.pods()
                if pod.tree["metadata"]["labels"].get(name) == value
            ]
            self.answer(200, {"kind": "PodList", "apiVersion": "v1", "items": found})

        def log(self, name: str) -> None:
            pod = next(
                (pod for pod in cluster.pods() if pod.tree["metadata"]["name"] == name), None
            )
            if pod is None:
                self.refuse(404, "NotFound", f'pods "{name}" not found')
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            with pod.log.open("rb") as log:
                while True:
                    ended = pod.phase != "Running" or cluster.closed.is_set()
                    piece = log.read()
                    self.wfile.write(piece)
                    if ended and not piece:
                        return
                    time.sleep(0.05)

    return Handler


@contextlib.contextmanager
def kubernetes_cluster() -> Iterator[tuple[Cluster, Path]]:
    """A cluster, and the kubeconfig that reaches it."""
    folder = Path(tempfile.mkdtemp(prefix="yard-kube-"))
    cluster = Cluster(folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(cluster, "t0ken"))
    server.daemon_threads = True
    threads = [
        threading.Thread(target=server.serve_forever),
        threading.Thread(target=cluster.control),
    ]
    for thread in threads:
        thread.start()
    config = folder / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
        f"clusters:\n- name: yard\n  cluster: {{server: 'http://127.0.0.1:{server.server_address[1]}'}}\n"
        "users:\n- name: ada\n  user: {token: t0ken}\n"
        "contexts:\n- name: here\n  context: {cluster: yard, user: ada, namespace: lab}\n"
    )
    try:
        yield cluster, config
    finally:
        cluster.close()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()
        shutil.rmtree(folder, ignore_errors=True)

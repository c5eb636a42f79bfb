"""The plan of calls: what each file asks of a server, how what it made is found again, and how it is taken back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias
from urllib.parse import quote

from gpuyard.document import Doc, Plain
from gpuyard.errors import InputError, Problem
from gpuyard.provision.apply.stamp import Stamp, stamp_of
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.schemas import Method
from gpuyard.provision.validate.google import google_methods

__all__ = ["Call", "CallStep", "Found", "Identity", "Manifest", "ManualStep", "plan_calls", "root_of"]

Identity = Literal["named", "listed", "deployed", "ran"]
# Bodies whose resource stands one level down, and carries the name.
INNER = {"container.projects.locations.clusters.create": "cluster"}
INNER["container.projects.locations.clusters.nodePools.create"] = "nodePool"
ACTIONS: dict[str, Identity] = {"deployModel": "deployed", "run": "ran"}
FORCED = {"tpu.projects.locations.queuedResources": (("force", "true"),)}  # it takes its nodes with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to a Google API that makes one resource, or starts one."""

    step: Annotated[str, Doc("the file's name")]
    method: str
    api: str
    http: str
    root: Annotated[str, Doc("https://SERVICE.googleapis.com/")]
    path: str
    query: tuple[tuple[str, str], ...]
    body: Annotated[str, Doc("JSON")]
    takes_request_id: bool
    identity: Identity
    resource: Annotated[str, Doc("path of what it makes or acts on; the collection where the server names it")]
    name: str
    stamp: Stamp | None

    @property
    def collection(self) -> str:
        """The family of methods, e.g. compute.networks."""
        return self.method.rsplit(".", 1)[0]

    @property
    def what(self) -> str:
        """What people call it: networks NAME."""
        return f"{self.collection.rsplit('.', 1)[1]} {self.name}"

    @property
    def delete_query(self) -> tuple[tuple[str, str], ...]:
        """Query parameters of its deletion."""
        return FORCED.get(self.collection, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Kubernetes objects in a file, which kubectl applies."""

    step: str
    context: Annotated[str, Doc("of kubectl; empty: the current one")]
    cluster_step: Annotated[str, Doc("the step that makes the cluster; empty where it exists already")] = ""
    stamp: Stamp | None = None

    @property
    def what(self) -> str:
        """What people call it."""
        return f"objects of {self.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualStep:
    """A file that no call takes: the README says what to do with it."""

    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What stands on the server: where, and whose it is."""

    resource: str
    stamp: Stamp | None
    is_broken: Annotated[bool, Doc("it stands, but its making failed")] = False
    is_leaving: Annotated[bool, Doc("its deletion is under way")] = False
    child: Annotated[str, Doc("its id inside the resource, e.g. of a deployed model")] = ""
    is_unfinished: Annotated[bool, Doc("it must be cancelled before it can be deleted")] = False


CallStep: TypeAlias = Call | Manifest


def plan_calls(artefacts: Sequence[Artefact], context: str = "") -> tuple[tuple[CallStep, ...], tuple[ManualStep, ...]]:
    """The calls of the files in order, and the files that are for hands; InputError where a request is not stamped."""
    steps: list[CallStep] = []
    manual: list[ManualStep] = []
    problems: list[Problem] = []
    cluster: Call | None = None
    for artefact in artefacts:
        if artefact.name.endswith(".json"):
            call = _call(artefact)
            if call is None:
                continue
            if call.stamp is None and call.identity not in ACTIONS.values():
                fix = "render it again: without labels nothing could find it later"
                problems.append(Problem(where=artefact.name, what=f"{call.method} carries no labels", fix=fix))
            if call.collection == "container.projects.locations.clusters":
                cluster = call
            steps.append(call)
        elif re.search(r"^apiVersion:\s", artefact.text, re.MULTILINE):
            steps.append(_manifest(artefact, cluster, context))
        elif re.match(r"\d\d-", artefact.name):
            manual.append(ManualStep(step=artefact.name))
    if problems:
        raise InputError(problems)
    return tuple(steps), tuple(manual)


def _manifest(artefact: Artefact, cluster: Call | None, context: str) -> Manifest:
    """The step of a file of Kubernetes objects; in the cluster that this deployment makes, where it makes one."""
    if cluster is not None and not context:
        words = cluster.resource.split("/")
        context = f"gke_{words[2]}_{words[4]}_{words[6]}"  # as `gcloud container clusters get-credentials` names it
    found = re.search(r"plan-hash[\"']?: *[\"']?([0-9a-f]{16})", artefact.text)
    stamp = Stamp(owner="", plan_hash=found.group(1), expires="") if found else None
    return Manifest(step=artefact.name, context=context, cluster_step=cluster.step if cluster else "", stamp=stamp)


def _call(artefact: Artefact) -> Call | None:
    """The call of a request file; None for JSON of another kind."""
    tree = json.loads(artefact.text)
    if not isinstance(tree, dict) or tree.get("method") not in google_methods():
        return None
    api, method = google_methods()[str(tree["method"])]
    given = tree.get("parameters")
    parameters = {key: str(value) for key, value in (given if isinstance(given, dict) else {}).items()}
    body = tree.get("body")
    inner = body.get(INNER.get(method.name, ""), body) if isinstance(body, dict) else {}
    path = _filled(method, parameters, artefact.name)
    identity, resource, name = _identity(method, path, parameters, inner if isinstance(inner, dict) else {})
    return Call(
        step=artefact.name,
        method=method.name,
        api=api,
        http=method.http,
        root=root_of(api, parameters.get("locationsId", "")),
        path=path,
        query=tuple((key, value) for key, value in parameters.items() if key in method.query),
        body=json.dumps(body, ensure_ascii=False),
        takes_request_id="requestId" in method.query,
        identity=identity,
        resource=resource,
        name=name,
        stamp=stamp_of(body),
    )


def _filled(method: Method, parameters: dict[str, str], file: str) -> str:
    """The path with its parameters."""
    missing = [name for name in re.findall(r"\{\+?(\w+)\}", method.path) if not parameters.get(name)]
    if missing:
        raise InputError.one(file, f"parameters.{missing[0]} is missing", f"{method.name} needs it: render it again")
    return re.sub(r"\{\+?(\w+)\}", lambda found: quote(parameters[found.group(1)], safe=""), method.path)


def _identity(
    method: Method, path: str, parameters: dict[str, str], body: dict[str, Plain]
) -> tuple[Identity, str, str]:
    """How the resource is found again: its path, or its collection where the server names it."""
    verb = method.name.rsplit(".", 1)[1]
    base = re.sub(r":\w+$", "", path)
    if verb in ACTIONS:
        model = body.get("deployedModel")
        name = str(model.get("displayName", "")) if isinstance(model, dict) else base.rsplit("/", 1)[1]
        return ACTIONS[verb], base, name
    ids = [parameters[key] for key in method.query if key.endswith("Id") and key != "requestId" and key in parameters]
    name = (ids or [str(body.get("modelId") or body.get("name") or "")])[0]
    if name:
        return "named", f"{base}/{quote(name, safe='')}", name
    return "listed", base, str(body.get("displayName", ""))


def root_of(api: str, location: str) -> str:
    """Where the API answers; Vertex AI answers in the region."""
    service = api.split(".")[0]
    host = f"{location}-{service}" if service == "aiplatform" and location not in ("", "-", "global") else service
    return f"https://{host}.googleapis.com/"

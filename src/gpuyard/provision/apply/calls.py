"""Rendered files as API calls and Kubernetes objects: what each creates, and how to find it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, cast
from urllib.parse import quote

from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain, plain_tree
from gpuyard.document.read import read_yaml_stream
from gpuyard.errors import InputError, Problem
from gpuyard.provision.apply.ownership_labels import (
    OwnershipLabels,
    object_labels,
    ownership_labels,
)
from gpuyard.provision.artefact import Artefact
from gpuyard.provision.platforms.requests import api_root
from gpuyard.provision.schemas.library import Method
from gpuyard.provision.validate.google import google_methods

# How a resource is found again: by its path, by its display name in a list, as a model of an
# endpoint, or as an execution of a job.
Identity = Literal["named", "listed", "deployed", "ran"]
# Bodies that wrap the resource in one more object.
INNER = {
    "container.projects.locations.clusters.create": "cluster",
    "container.projects.locations.clusters.nodePools.create": "nodePool",
}
PATH_PARAMETER = re.compile(r"\{\+?(\w+)\}")
ACTIONS: dict[str, Identity] = {"deployModel": "deployed", "run": "ran"}
# Query parameters of a deletion: a queued resource is deleted together with its nodes.
DELETE_QUERY = {"tpu.projects.locations.queuedResources": (("force", "true"),)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A request to a Google API that creates or starts one resource."""

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
    resource: Annotated[
        str, Doc("path of the resource; of its collection if the server chooses the name")
    ]
    name: str
    labels: OwnershipLabels | None

    @property
    def collection(self) -> str:
        """The resource type, e.g. compute.networks."""
        return self.method.rsplit(".", 1)[0]

    @property
    def what(self) -> str:
        """Type and name, e.g. networks NAME."""
        return f"{self.collection.rsplit('.', 1)[1]} {self.name}"

    @property
    def file(self) -> str:
        return self.step

    @property
    def reference(self) -> str:
        """The one resource that it creates, as the journal records it."""
        return self.resource if self.identity != "listed" else f"{self.resource} {self.name}"

    @property
    def project(self) -> str:
        """The project in its URL; empty if it names none."""
        match = re.search(r"(?:^|/)projects/([^/]+)", self.path)
        return match[1] if match else dict(self.query).get("project", "")

    @property
    def delete_query(self) -> tuple[tuple[str, str], ...]:
        return DELETE_QUERY.get(self.collection, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesObject:
    """One object of a manifest, for kubectl."""

    file: str
    api_version: str
    kind: str
    namespace: Annotated[str, Doc("empty: cluster-scoped, or the context's namespace")]
    name: str
    body: Annotated[str, Doc("JSON")]
    context: Annotated[str, Doc("kubectl context; empty: the current one")]
    cluster_step: Annotated[str, Doc("step that creates its cluster; empty: it exists")] = ""

    @property
    def step(self) -> str:
        return f"{self.file}: {self.reference}"

    @property
    def labels(self) -> OwnershipLabels | None:
        return object_labels(cast(Plain, json.loads(self.body)))

    @property
    def type(self) -> str:
        """Type as kubectl takes it: KIND.VERSION.GROUP."""
        group, _, version = self.api_version.rpartition("/")
        return f"{self.kind}.{version}.{group}"

    @property
    def reference(self) -> str:
        """The one object that it creates, as the journal records it."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.api_version} {self.kind} {place}{self.name}"

    @property
    def what(self) -> str:
        """Kind and name, e.g. JobSet NAME."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualStep:
    """A file that no client applies: the README says what to do with it."""

    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingResource:
    """A resource that exists on the server, with its owner."""

    path: str
    labels: OwnershipLabels | None
    is_partial: Annotated[bool, Doc("its creation failed and left a partial resource")] = False
    child: Annotated[str, Doc("id inside the resource, e.g. of a deployed model")] = ""
    must_cancel_first: Annotated[bool, Doc("it must be cancelled before it can be deleted")] = False


CallStep: TypeAlias = ApiCall | KubernetesObject


def plan_calls(
    artefacts: Sequence[Artefact], context: str = ""
) -> tuple[tuple[CallStep, ...], tuple[ManualStep, ...]]:
    """Return the steps of the files in order, and the files to apply by hand.

    Raises InputError if a request or an object carries no ownership labels.
    """
    steps: list[CallStep] = []
    manual: list[ManualStep] = []
    problems: list[Problem] = []
    cluster: ApiCall | None = None
    for artefact in artefacts:
        if artefact.name.endswith(".json"):
            call = _call(artefact)
            if call is None:
                continue
            if call.labels is None and call.identity not in ACTIONS.values():
                what = f"{call.method} has no ownership labels, so it could not be found again"
                problems.append(Problem(where=artefact.name, what=what, fix="render it again"))
            if call.collection == "container.projects.locations.clusters":
                cluster = call
            steps.append(call)
        elif re.search(r"^apiVersion:\s", artefact.text, re.MULTILINE):
            objects = tuple(_objects(artefact, cluster, context))
            problems += [
                Problem(
                    where=artefact.name,
                    what=f"{item.what} has no ownership labels, so it would never be deleted",
                    fix="render it again",
                )
                for item in objects
                if item.labels is None
            ]
            steps += objects
        elif re.match(r"\d\d-", artefact.name):
            manual.append(ManualStep(step=artefact.name))
    if problems:
        raise InputError(problems)
    return tuple(steps), tuple(manual)


def _objects(
    artefact: Artefact, cluster: ApiCall | None, context: str
) -> Iterator[KubernetesObject]:
    if cluster is not None and not context:
        # The name that `gcloud container clusters get-credentials` gives the context.
        _, _, project, _, location, _, name = cluster.resource.split("/")
        context = f"gke_{project}_{location}_{name}"
    cluster_step = cluster.step if cluster else ""
    documents, repeated = read_yaml_stream(artefact.text, artefact.name)
    if repeated:
        raise InputError(repeated)
    for document in documents:
        body = plain_tree(document.root)
        meta = body.get("metadata") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(meta, dict) or not meta.get("name"):
            where = str(document.root.location)
            raise InputError.one(where, "is not one Kubernetes object", "render it again")
        yield KubernetesObject(
            file=artefact.name,
            api_version=str(body.get("apiVersion", "")),
            kind=str(body.get("kind", "")),
            namespace=str(meta.get("namespace") or ""),
            name=str(meta["name"]),
            body=json.dumps(body, ensure_ascii=False),
            context=context,
            cluster_step=cluster_step,
        )


def _call(artefact: Artefact) -> ApiCall | None:
    # None for JSON that is not an API request.
    tree = json.loads(artefact.text)
    if not isinstance(tree, dict) or tree.get("method") not in google_methods():
        return None
    api, method = google_methods()[str(tree["method"])]
    values = tree.get("parameters")
    parameters = (
        {key: str(value) for key, value in values.items()} if isinstance(values, dict) else {}
    )
    body = tree.get("body")
    inner = body.get(INNER.get(method.name, ""), body) if isinstance(body, dict) else {}
    path = _filled(method, parameters, artefact.name)
    identity, resource, name = _identity(
        method, path, parameters, inner if isinstance(inner, dict) else {}
    )
    return ApiCall(
        step=artefact.name,
        method=method.name,
        api=api,
        http=method.http,
        root=api_root(api, parameters.get("locationsId", "")),
        path=path,
        query=tuple((key, value) for key, value in parameters.items() if key in method.query),
        body=json.dumps(body, ensure_ascii=False),
        takes_request_id="requestId" in method.query,
        identity=identity,
        resource=resource,
        name=name,
        labels=ownership_labels(body),
    )


def _filled(method: Method, parameters: dict[str, str], file: str) -> str:
    missing = [name for name in PATH_PARAMETER.findall(method.path) if not parameters.get(name)]
    if missing:
        what = f"parameters.{missing[0]} is missing; {method.name} needs it"
        raise InputError.one(file, what, "render it again")
    return PATH_PARAMETER.sub(lambda match: quote(parameters[match[1]], safe=""), method.path)


def _identity(
    method: Method, path: str, parameters: dict[str, str], body: dict[str, Plain]
) -> tuple[Identity, str, str]:
    verb = method.name.rsplit(".", 1)[1]
    base = re.sub(r":\w+$", "", path)
    if verb in ACTIONS:
        model = body.get("deployedModel")
        name = base.rsplit("/", 1)[1]
        if isinstance(model, dict):
            name = str(model.get("displayName", ""))
        return ACTIONS[verb], base, name
    ids = [
        parameters[key]
        for key in method.query
        if key.endswith("Id") and key != "requestId" and key in parameters
    ]
    name = (ids or [str(body.get("modelId") or body.get("name") or "")])[0]
    if name:
        return "named", f"{base}/{quote(name, safe='')}", name
    return "listed", base, str(body.get("displayName", ""))

"""An in-memory cloud: resources, operations, and faults on request."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from gpuyard.provision.validate.schema import schema_findings

from .project import Project
from .routes import Route, route_of

CREATES = ("insert", "create", "upload")
INNER = {
    "container.projects.locations.clusters.create": "cluster",
    "container.projects.locations.clusters.nodePools.create": "nodePool",
    "aiplatform.projects.locations.models.upload": "model",
}
REFERENCE = re.compile(r"projects/[^/]+/(?:global|regions/[^/]+|zones/[^/]+)/(\w+)/([\w-]+)$")
TRACKED = (
    "networks",
    "subnetworks",
    "instanceTemplates",
    "resourcePolicies",
    "healthChecks",
    "instanceGroupManagers",
)
Tree = dict[str, Any]
Reply = tuple[int, Tree]


@dataclass
class Operation:
    """A pending operation, done when the cloud has seen `due` requests."""

    path: str
    due: int
    target: str
    make: Tree | None = None
    is_removal: bool = False
    error: str = ""


@dataclass
class Cloud:
    """State of all projects."""

    delay: int = 2  # requests until an operation is done
    is_late: bool = False  # a resource appears only when its operation is done
    quotas: dict[str, int] = field(default_factory=dict)
    stockouts: int = 0  # machines for which the next creations fail
    filled: set[str] = field(default_factory=set)  # buckets that are not empty
    project: Project = field(default_factory=Project)
    resources: dict[str, Tree] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    requests: dict[tuple[str, str], Tree] = field(default_factory=dict)
    makings: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    clock: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1000))

    def answer(self, service: str, http: str, target: str, text: str) -> Reply:
        """Return the response to one request."""
        self.clock += 1
        self.tick()
        path, _, query_text = target.lstrip("/").partition("?")
        query = dict(parse_qsl(query_text))
        self.log.append(f"{http} {path}")
        found = route_of(service, http, path)
        read = None if path in self.resources else self.project.answer(service, http, path, text)
        if read is not None:
            return read
        if found is None:
            return refused(404, "notFound", f"no method answers {http} {path} of {service}")
        route, _ = found
        unknown = set(query) - set(route.method.query)
        if unknown:
            return refused(400, "invalid", f"unknown parameter {unknown}")
        again = self.requests.get((path, query.get("requestId", "")))
        if again is not None and query.get("requestId"):
            return 200, self.operation_tree(again)
        reply = self.act(route, path, query, json.loads(text) if text else {})
        if reply[0] == 200 and query.get("requestId"):
            self.requests[path, query["requestId"]] = reply[1]
        return reply

    def act(self, route: Route, path: str, query: dict[str, str], body: Tree) -> Reply:
        """Run a method."""
        if route.collection.lower().endswith("operations"):
            return self.operations_of(route, path)
        if route.verb in CREATES:
            return self.create(route, path, query, body)
        if route.verb in ("list", "aggregatedList"):
            return self.listed(route, path, query)
        base = re.sub(r"(:\w+|/cancel)$", "", path) if route.verb not in ("get", "delete") else path
        if base not in self.resources:
            return refused(404, "notFound", f"{base} was not found")
        if route.verb == "get":
            return 200, copy.deepcopy(self.resources[base])
        if route.verb == "delete":
            return self.delete(route, path)
        return self.custom(route, base, body)

    def custom(self, route: Route, base: str, body: Tree) -> Reply:
        """Run a method that acts on an existing resource."""
        tree = self.resources[base]
        if route.verb == "cancel":
            tree["state"] = "JOB_STATE_CANCELLED" if "customJobs" in base else "CANCELLED"
            return (200, {}) if "customJobs" in base else (200, self.begin(route, base))
        if route.verb == "run":
            tree["executionCount"] = tree.get("executionCount", 0) + 1
            self.makings.append(f"{base}:run")
            return 200, self.begin(route, base)
        if route.verb == "deployModel":
            if wrong := self.invalid(route, body):
                return wrong
            tree.setdefault("deployedModels", []).append(
                {**body["deployedModel"], "id": str(next(self.numbers))}
            )
            self.makings.append(f"{base}:deployModel")
            return 200, self.begin(route, base)
        if route.verb == "undeployModel":
            tree["deployedModels"] = [
                row for row in tree["deployedModels"] if row["id"] != body["deployedModelId"]
            ]
            return 200, self.begin(route, base)
        return refused(501, "notImplemented", route.method.name)

    def invalid(self, route: Route, body: Tree) -> Reply | None:
        """Return the error for a body that violates its schema, with the path of the field."""
        schema = route.books.schema(route.method.request)
        wrong = [
            finding
            for finding in schema_findings(body, schema, route.books, route.method.name)
            if finding.severity == "error"
        ]
        if not wrong:
            return None
        return refused(
            400, "invalid", f"Invalid value for field 'resource.{wrong[0].where}': {wrong[0].what}"
        )

    def create(self, route: Route, path: str, query: dict[str, str], body: Tree) -> Reply:
        """Create a resource."""
        if wrong := self.invalid(route, body):
            return wrong
        base = re.sub(r":\w+$", "", path)
        inner = body.get(INNER.get(route.method.name, ""), body)
        ids = [value for key, value in query.items() if key.endswith("Id") and key != "requestId"]
        name = (ids or [body.get("modelId") or inner.get("name") or str(next(self.numbers))])[0]
        full = f"{base}/{name}"
        pending = any(
            item.target == full and item.make is not None for item in self.operations.values()
        )
        if full in self.resources or pending:
            return refused(409, "alreadyExists", f"The resource '{full}' already exists")
        parent = base.rsplit("/", 1)[0]
        if (
            re.search(r"/(instanceGroupManagers|clusters)/[^/]+$", parent)
            and parent not in self.resources
        ):
            return refused(404, "notFound", f"{parent} was not found")
        for link in (
            references(body) if route.api.split(".")[0] != "hypercomputecluster" else []
        ):  # it creates them itself
            if f"compute/v1/{link}" not in self.resources and not link.rsplit("/", 1)[1].startswith(
                "default"
            ):
                return refused(
                    400, "invalid", f"Invalid value: the referenced resource '{link}' was not found"
                )
        if self.count(route.collection) >= self.quotas.get(route.collection, 10**9):
            return refused(403, "quotaExceeded", f"Quota '{route.collection.upper()}' exceeded.")
        tree = self.stamped(route, full, copy.deepcopy(inner), name)
        if not route.method.response.endswith("Operation"):
            self.commit(full, tree)
            return 200, tree
        short = ""
        if (
            route.collection
            in ("instances", "instanceGroupManagerResizeRequests", "queuedResources")
            and self.stockouts
        ):
            self.stockouts -= 1
            short = "ZONE_RESOURCE_POOL_EXHAUSTED"
        return 200, self.begin(route, full, make=tree, error=short)

    def stamped(self, route: Route, full: str, tree: Tree, name: str) -> Tree:
        """Return a resource with server-assigned fields."""
        if route.api.startswith(("compute", "container")):
            host = (
                "https://www.googleapis.com/"
                if route.api.startswith("compute")
                else "https://container.googleapis.com/"
            )
            tree |= {"name": name, "selfLink": host + full}
            if route.collection == "instanceGroupManagerResizeRequests":
                tree["state"] = "ACCEPTED"
        elif route.api.startswith("storage"):
            tree |= {"name": name}
        else:
            tree |= {"name": full.split("/", 1)[1]}
            if route.collection == "customJobs":
                tree["state"] = "JOB_STATE_RUNNING"
        return tree

    def begin(
        self,
        route: Route,
        target: str,
        make: Tree | None = None,
        is_removal: bool = False,
        error: str = "",
    ) -> Tree:
        """Start an operation."""
        number = f"operation-{next(self.numbers)}"
        scope = re.match(
            r"compute/v1/projects/[^/]+/(?:zones/[^/]+|regions/[^/]+|global)|v\d/projects/[^/]+/locations/[^/]+",
            target,
        )
        assert scope is not None
        operation = Operation(
            path=f"{scope.group(0)}/operations/{number}",
            due=self.clock + self.delay,
            target=target,
            make=make,
            is_removal=is_removal,
            error=error,
        )
        self.operations[operation.path] = operation
        if make is not None and not self.is_late and not error:
            self.commit(target, make)
            operation.make = None
        if is_removal and not self.is_late:
            self.remove(target)
            operation.is_removal = False
        return self.operation_tree(
            {
                "name": number
                if route.api.startswith(("compute", "container"))
                else operation.path.split("/", 1)[1],
                "path": operation.path,
            }
        )

    def operation_tree(self, given: Tree) -> Tree:
        """Return an operation in the form of its API."""
        operation = self.operations.get(given.get("path", ""))
        if operation is None:
            return given
        done = self.clock >= operation.due
        tree: Tree = {"name": given["name"], "path": operation.path}
        if "/" not in given["name"]:
            tree["targetLink"] = f"https://www.googleapis.com/{operation.target}"
        elif re.search(
            r"/(queuedResources|clusters|instances)/[^/]+$", operation.target
        ):  # other APIs do not report it
            tree["metadata"] = {"target": operation.target.split("/", 1)[1]}
        tree |= (
            {"status": "DONE" if done else "RUNNING"}
            if "/" not in given["name"]
            else {"done": done}
        )
        if done and operation.error:
            message = f"The zone does not have enough resources available to fulfill the request. '{operation.error}'"
            tree["error"] = (
                {"errors": [{"code": operation.error, "message": message}]}
                if "status" in tree
                else {"code": 8, "message": message}
            )
        return tree

    def operations_of(self, route: Route, path: str) -> Reply:
        """Return one operation, or all pending ones."""
        if route.verb == "get":
            if path not in self.operations:
                return refused(404, "notFound", path)
            long = not route.api.startswith(("compute", "container"))
            return 200, self.operation_tree(
                {"name": path.split("/", 1)[1] if long else path.rsplit("/", 1)[1], "path": path}
            )
        short = route.api.startswith(("compute", "container"))
        names = {
            key: key.rsplit("/", 1)[1] if short else key.split("/", 1)[1] for key in self.operations
        }
        rows = [
            self.operation_tree({"name": name, "path": key})
            for key, name in names.items()
            if key.startswith(path)
        ]
        if route.api.startswith("compute"):
            return 200, {"items": [row for row in rows if row["status"] != "DONE"]}
        return 200, {"operations": rows}

    def tick(self) -> None:
        """Finish the operations that are due."""
        for operation in self.operations.values():
            if self.clock < operation.due:
                continue
            if operation.make is not None and not operation.error:
                self.commit(operation.target, operation.make)
            if operation.is_removal:
                self.remove(operation.target)
            operation.make, operation.is_removal = None, False

    def commit(self, full: str, tree: Tree) -> None:
        """Add a resource; a group also adds its machines."""
        self.resources[full] = tree
        self.makings.append(full)
        count = tree.get("resizeBy") or tree.get("targetSize") or 0
        group = full.split("/resizeRequests/")[0]
        if "/instanceGroupManagers/" in full and count:
            template = self.resources["compute/v1/" + self.resources[group]["instanceTemplate"]]
            zone = group.split("/instanceGroupManagers/")[0]
            for number in range(count):
                name = f"{tree.get('baseInstanceName', group.rsplit('/', 1)[1])}-{number:04d}"
                instance = f"{zone}/instances/{name}"
                self.resources[instance] = {
                    "name": name,
                    "labels": template["properties"].get("labels", {}),
                    "group": group,
                    "selfLink": f"https://www.googleapis.com/{instance}",
                }

    def remove(self, full: str) -> None:
        """Delete a resource with its children."""
        gone = [
            key
            for key, tree in self.resources.items()
            if key == full or key.startswith(f"{full}/") or tree.get("group") == full
        ]
        for key in gone:
            del self.resources[key]

    def delete(self, route: Route, path: str) -> Reply:
        """Start the deletion of a resource that is not in use."""
        if path in self.filled:
            return refused(409, "conflict", "The bucket you tried to delete is not empty.")
        state = self.resources[path].get("state")
        if state in ("ACCEPTED", "JOB_STATE_RUNNING"):
            return refused(400, "failedPrecondition", f"{path} is {state}: cancel it first")
        link = path.removeprefix("compute/v1/")
        users = [
            key for key, tree in self.resources.items() if key != path and link in references(tree)
        ]
        if users:
            return refused(
                400,
                "resourceInUseByAnotherResource",
                f"'{link}' is already being used by '{users[0]}'",
            )
        if not route.method.response.endswith("Operation"):
            self.remove(path)
            return 200, {}
        return 200, self.begin(route, path, is_removal=True)

    def listed(self, route: Route, path: str, query: dict[str, str]) -> Reply:
        """List a collection, aggregated over zones if requested."""
        if route.verb == "aggregatedList":
            project, kind = re.match(r"(compute/v1/projects/[^/]+)/aggregated/(\w+)", path).groups()  # type: ignore[union-attr]
            pattern = rf"{project}/((?:zones|regions)/[^/]+|global)/{kind}/[^/]+"
            scopes: Tree = {}
            for key, tree in self.resources.items():
                if found := re.fullmatch(pattern, key):
                    scopes.setdefault(found.group(1), {kind: []})[kind].append(tree)
            return 200, {
                "items": scopes or {"zones/none": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}
            }
        pattern = re.escape(path).replace(r"locations/\-", "locations/[^/]+") + "/[^/]+"
        rows = [tree for key, tree in self.resources.items() if re.fullmatch(pattern, key)]
        wanted = re.fullmatch(r'displayName="(.*)"', query.get("filter", ""))
        rows = [row for row in rows if not wanted or row.get("displayName") == wanted.group(1)]
        start = int(query.get("pageToken", "0"))
        more = (
            {"nextPageToken": str(start + 2)} if start + 2 < len(rows) else {}
        )  # small pages, to test pagination
        key = "items" if route.api.startswith(("compute", "storage")) else route.collection
        return 200, {key: rows[start : start + 2], **more}

    def count(self, collection: str) -> int:
        """Return the number of resources of a kind."""
        return sum(key.rsplit("/", 2)[1] == collection for key in self.resources)


def references(tree: Any) -> list[str]:
    """Return the resources that a tree references."""
    if isinstance(tree, dict):
        return [
            link
            for key, child in tree.items()
            if key not in ("selfLink", "group")
            for link in references(child)
        ]
    if isinstance(tree, list):
        return [link for child in tree for link in references(child)]
    found = REFERENCE.search(tree) if isinstance(tree, str) else None
    return [found.group(0)] if found and found.group(1) in TRACKED else []


def refused(status: int, reason: str, message: str) -> Reply:
    """Return an error in Google's format."""
    return status, {
        "error": {
            "code": status,
            "message": message,
            "errors": [{"reason": reason, "message": message}],
        }
    }

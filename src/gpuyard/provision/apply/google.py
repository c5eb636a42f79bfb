"""Steps that are calls of Google APIs: retried where that is safe, polled until they have ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from gpuyard.document import Plain
from gpuyard.errors import RefusedError
from gpuyard.provision.apply.calls import Call, Found
from gpuyard.provision.apply.endpoint import Answer, Endpoint, LostError
from gpuyard.provision.apply.hand import Clock, FailedError, TakenError, UncertainError
from gpuyard.provision.apply.refusals import BUSY, RETRIED, failure_of, is_capacity, operation_failure
from gpuyard.provision.apply.stamp import stamp_of

__all__ = ["GoogleHand", "pages"]

TRIES = 6
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 15.0
OPERATION_S = 45 * 60.0  # the longest that a cluster takes to be made, and more
LOOKS, LOOK_S = 8, 2.0
BUSY_S = 120.0  # what uses it goes in a moment, or does not go
LATER = "run it again: it goes on where it stopped"
SCOPE = re.compile(r"compute/v1/projects/[^/]+/(?:zones/[^/]+|regions/[^/]+|global)|v\d/projects/[^/]+/locations/[^/]+")
BROKEN = {"container": ("ERROR",), "tpu": ("FAILED",)}
ENDED = {
    "compute.instanceGroupManagerResizeRequests": ("SUCCEEDED", "FAILED", "CANCELLED"),
    "aiplatform.projects.locations.customJobs": (
        "JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED",
    ),
}  # fmt: skip
LEAVING = ("STOPPING", "DELETING")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleHand:
    """Works on calls."""

    endpoint: Endpoint
    clock: Clock

    def gap(self, step: Call) -> str:  # noqa: ARG002
        """Nothing but credentials is needed, and they were looked for before."""
        return ""

    def find(self, step: Call) -> Found | None:
        """What stands at the address of the step, or under its name where the server gives addresses."""
        if step.identity == "listed":
            return self._listed(step)
        tree = self._get(step, step.resource)
        if tree is None:
            return None
        if step.identity == "deployed":
            models = tree.get("deployedModels")
            for model in models if isinstance(models, list) else []:
                if isinstance(model, dict) and model.get("displayName") == step.name:
                    return Found(resource=step.resource, stamp=stamp_of(tree), child=str(model.get("id", "")))
            return None
        if step.identity == "ran":
            ran = bool(tree.get("executionCount") or tree.get("latestCreatedExecution"))
            return Found(resource=step.resource, stamp=stamp_of(tree)) if ran else None
        return _found(step, step.resource, tree)

    def settle(self, step: Call) -> None:
        """Waits for operations on the target that were accepted before we lost sight of them."""
        scope, target = _scope(step), step.resource.split("/", 1)[1].removeprefix("v1/")
        query = (("filter", 'status != "DONE"'),) if step.api.startswith("compute") else ()
        try:
            rows = tuple(pages(self, step.root, f"{scope}/operations", query)) if scope else ()
        except FailedError:
            rows = ()  # not every service lists its operations
        for row in rows:
            if _target(row).endswith(target) and not _is_done(row):
                self._wait(step, _operation(step, row))
        if not step.api.startswith("compute"):  # some operations do not tell what they work on: it may yet appear
            for _ in range(LOOKS):
                if self.find(step) is not None:
                    return
                self.clock.sleep(LOOK_S)

    def start(self, step: Call, request_id: str) -> str:
        """Sends the call."""
        query = (*step.query, ("requestId", request_id)) if step.takes_request_id else step.query
        answer = self.ask(step.http, _url(step.root, step.path, query), step.body, is_idempotent=step.takes_request_id)
        if answer.status == 409:
            raise TakenError(step.resource)
        if answer.status >= 400:
            raise failure_of(answer)
        return _operation(step, answer.tree)

    def finish(self, step: Call, operation: str) -> None:
        """Waits for the operation."""
        if operation:
            failure = self._wait(step, operation)
            if failure is not None:
                raise failure

    def start_removal(self, step: Call, found: Found, request_id: str) -> str:
        """Deletes it; what has to be cancelled first is cancelled, what is still used is waited for."""
        if step.identity == "ran":
            return ""  # it goes with its job
        if found.is_unfinished:
            self._cancel(step, found)
        http, url, body = "DELETE", _url(step.root, found.resource, step.delete_query), ""
        if step.takes_request_id:
            url = _url(step.root, found.resource, (*step.delete_query, ("requestId", request_id)))
        if step.identity == "deployed":
            http, url = "POST", _url(step.root, f"{found.resource}:undeployModel", ())
            body = json.dumps({"deployedModelId": found.child})
        waited_s, wait_s = 0.0, FIRST_WAIT_S
        while True:
            answer = self.ask(http, url, body, is_idempotent=True)
            if answer.status == 404:
                return ""
            if answer.status < 400:
                return _operation(step, answer.tree)
            failure = failure_of(answer)
            is_busy = failure.code in BUSY or (answer.status == 409 and step.api.startswith("container"))
            if not is_busy or waited_s > BUSY_S:
                raise failure
            self.clock.sleep(wait_s)
            waited_s, wait_s = waited_s + wait_s, min(2 * wait_s, LONGEST_WAIT_S)

    def ask(self, http: str, url: str, body: str = "", *, is_idempotent: bool = True) -> Answer:
        """The answer, asked for again where the server is busy; only what may be sent twice is sent twice."""
        wait_s, last = FIRST_WAIT_S, ""
        for _ in range(TRIES):
            try:
                answer = self.endpoint.send(http, url, body)
            except LostError as error:
                last = str(error)
                if not is_idempotent:
                    raise UncertainError(last) from None
            else:
                if answer.status not in RETRIED or is_capacity(failure_of(answer)):
                    return answer
                last = f"{answer.status} {failure_of(answer).what}"
                if not is_idempotent and answer.status != 429:
                    raise UncertainError(last)
            self.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        raise RefusedError(url.split("?")[0], f"no answer after {TRIES} tries: {last}", LATER)

    def _get(self, step: Call, path: str) -> dict[str, Plain] | None:
        """A resource; None where there is none."""
        answer = self.ask("GET", _url(step.root, path, ()))
        if answer.status == 404:
            return None
        if answer.status >= 400:
            failure = failure_of(answer)
            raise RefusedError(path, f"{failure.code}: {failure.what}", failure.fix)
        return answer.tree if isinstance(answer.tree, dict) else {}

    def _listed(self, step: Call) -> Found | None:
        """What carries the display name and the stamp of the step."""
        version = step.resource.split("/")[0]
        for row in pages(self, step.root, step.resource, (("filter", f'displayName="{step.name}"'),)):
            if row.get("displayName") == step.name and stamp_of(row) == step.stamp:
                return _found(step, f"{version}/{row['name']}", row)
        return None

    def _wait(self, step: Call, operation: str) -> FailedError | None:
        """The failure that an operation ended with; None where it ended well, or is no longer known."""
        waited_s, wait_s = 0.0, FIRST_WAIT_S
        while waited_s < OPERATION_S:
            tree = self._get(step, operation)
            if tree is None or _is_done(tree):
                return operation_failure(tree or {})
            self.clock.sleep(wait_s)
            waited_s, wait_s = waited_s + wait_s, min(2 * wait_s, LONGEST_WAIT_S)
        raise RefusedError(operation, f"not done after {OPERATION_S / 60:.0f} minutes", LATER)

    def _cancel(self, step: Call, found: Found) -> None:
        """Cancels what runs, and waits until it has stopped."""
        mark = "/" if step.api.startswith("compute") else ":"
        answer = self.ask("POST", _url(step.root, f"{found.resource}{mark}cancel", ()))
        if answer.status < 400:
            self.finish(step, _operation(step, answer.tree))
        waited_s, wait_s = 0.0, FIRST_WAIT_S
        while waited_s < BUSY_S:
            now = self.find(step)
            if now is None or not now.is_unfinished:
                return
            self.clock.sleep(wait_s)
            waited_s, wait_s = waited_s + wait_s, min(2 * wait_s, LONGEST_WAIT_S)


def pages(
    hand: GoogleHand, root: str, path: str, query: tuple[tuple[str, str], ...] = ()
) -> Iterator[dict[str, Plain]]:
    """Every row of a list, page after page; scopes of an aggregated list are looked through."""
    token = ""
    while True:
        asked = (*query, ("pageToken", token)) if token else query
        answer = hand.ask("GET", _url(root, path, asked))
        if answer.status >= 400:
            raise failure_of(answer)
        tree = answer.tree if isinstance(answer.tree, dict) else {}
        yield from _rows(tree)
        token = str(tree.get("nextPageToken") or "")
        if not token:
            return


def _rows(tree: dict[str, Plain]) -> Iterator[dict[str, Plain]]:
    """The rows of a page."""
    items = tree.get("items")
    if isinstance(items, dict):
        for scope in items.values():
            if isinstance(scope, dict):
                yield from _rows({key: value for key, value in scope.items() if key != "warning"})
        return
    for key, value in tree.items():
        if isinstance(value, list) and key != "unreachable":
            yield from (row for row in value if isinstance(row, dict))


def _url(root: str, path: str, query: tuple[tuple[str, str], ...]) -> str:
    """The address of a path."""
    return f"{root}{path}?{urlencode(query)}" if query else f"{root}{path}"


def _is_done(operation: dict[str, Plain]) -> bool:
    """Whether an operation has ended."""
    return operation.get("done") is True or operation.get("status") == "DONE"


def _target(operation: dict[str, Plain]) -> str:
    """The path of what an operation works on; empty where it does not tell."""
    metadata = operation.get("metadata")
    inner = metadata.get("target") if isinstance(metadata, dict) else ""
    return str(operation.get("targetLink") or inner or "")


def _scope(step: Call) -> str:
    """The zone, region or location below which a step's operations stand."""
    found = SCOPE.match(step.path)
    return found.group(0) if found else ""


def _operation(step: Call, tree: Plain) -> str:
    """The path of the operation in an answer; empty where the work is done with the answer."""
    name = str(tree.get("name", "")) if isinstance(tree, dict) else ""
    if not name or step.api.startswith("storage"):
        return ""
    if "/operations/" in name:
        return f"{step.path.split('/')[0]}/{name}"
    return f"{_scope(step)}/operations/{name}" if step.api.startswith(("compute", "container")) else ""


def _found(step: Call, resource: str, tree: dict[str, Plain]) -> Found:
    """What a resource says of itself."""
    state = tree.get("state") or tree.get("status")
    inner = state.get("state") if isinstance(state, dict) else None
    word = str(inner or state or "") if not isinstance(state, dict) or inner else ""
    ends = ENDED.get(step.collection)
    return Found(
        resource=resource,
        stamp=stamp_of(tree),
        is_broken=word in BROKEN.get(step.api.split(".")[0], ()),
        is_leaving=word in LEAVING,
        is_unfinished=ends is not None and word not in ends,
    )

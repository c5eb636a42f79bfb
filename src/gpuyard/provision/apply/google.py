"""Client for steps that are Google API calls: safe retries, and polling of operations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.http import HttpError, HttpResponse, HttpRetryPolicy, NoResponseError
from gpuyard.provision.apply.api_errors import (
    BUSY,
    RESUME,
    api_error_from,
    is_out_of_capacity,
    operation_error,
)
from gpuyard.provision.apply.calls import ApiCall, ExistingResource
from gpuyard.provision.apply.ownership_labels import ownership_labels
from gpuyard.provision.apply.step_client import (
    AlreadyExistsError,
    ApiError,
    Clock,
    UnknownOutcomeError,
)
from gpuyard.provision.apply.transport import ApiTransport, redacted

# A request that Google rejects with 429 was not acted on.
RETRY = HttpRetryPolicy(first_s=1.0, max_s=15.0, rejected_statuses=frozenset({429}))
OPERATION_TIMEOUT_S = 45 * 60.0  # creating a GKE cluster takes longest
BUSY_TIMEOUT_S = 120.0  # a resource that uses this one is deleted within this time, or stays
POLLS = 8
POLL_S = 2.0
SCOPE = re.compile(
    r"compute/v1/projects/[^/]+/(?:zones/[^/]+|regions/[^/]+|global)"
    r"|v\d/projects/[^/]+/locations/[^/]+"
)
# States of a resource whose creation failed, by API.
PARTIAL_STATES = {"container": ("ERROR",), "tpu": ("FAILED",)}
# Final states of the resources that have to be cancelled before they can be deleted.
FINAL_STATES = {
    "compute.instanceGroupManagerResizeRequests": ("SUCCEEDED", "FAILED", "CANCELLED"),
    "aiplatform.projects.locations.customJobs": (
        "JOB_STATE_SUCCEEDED",
        "JOB_STATE_FAILED",
        "JOB_STATE_CANCELLED",
        "JOB_STATE_EXPIRED",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleClient:
    """Runs Google API calls."""

    transport: ApiTransport
    clock: Clock

    def missing_prerequisite(self, step: ApiCall) -> str:  # noqa: ARG002
        """Return nothing: credentials were checked when the transport was built."""
        return ""

    def find(self, step: ApiCall) -> ExistingResource | None:
        """Return the resource at the path of a step, or with its display name, if it exists."""
        if step.identity == "listed":
            row = self._find_row(step)
            version = step.resource.split("/")[0]
            return _existing(step, f"{version}/{row['name']}", row) if row else None
        tree = self._get(step, step.resource)
        if tree is None:
            return None
        if step.identity == "deployed":
            return _deployed_model(step, tree)
        if step.identity == "ran":
            if tree.get("executionCount") or tree.get("latestCreatedExecution"):
                return ExistingResource(path=step.resource, labels=ownership_labels(tree))
            return None
        return _existing(step, step.resource, tree)

    def wait_for_inflight_calls(self, step: ApiCall) -> None:
        """Wait for operations on the resource that the server accepted before contact was lost."""
        scope = _scope(step)
        target = step.resource.split("/", 1)[1].removeprefix("v1/")
        query = (("filter", 'status != "DONE"'),) if step.api.startswith("compute") else ()
        try:
            rows = tuple(pages(self, step.root, f"{scope}/operations", query)) if scope else ()
        except ApiError:
            rows = ()  # not every service lists its operations
        for row in rows:
            if _target(row).endswith(target) and not _is_done(row):
                self._wait(step, _operation(step, row))
        if step.api.startswith("compute"):
            return
        # Operations of other services may not name their target: the resource may still appear.
        for _ in range(POLLS):
            if self.find(step) is not None:
                return
            self.clock.sleep(POLL_S)

    def start(self, step: ApiCall, request_id: str) -> str:
        """Send the call and return its operation."""
        query = (*step.query, ("requestId", request_id)) if step.takes_request_id else step.query
        url = _url(step.root, step.path, query)
        response = self.send(step.http, url, step.body, is_idempotent=step.takes_request_id)
        if response.status == 409:
            raise AlreadyExistsError(step.resource)
        if response.status >= 400:
            raise api_error_from(response)
        return _operation(step, response.body)

    def finish(self, step: ApiCall, operation: str) -> None:
        """Wait until an operation ends; raise ApiError if it failed."""
        if not operation:
            return
        error = self._wait(step, operation)
        if error is not None:
            raise error

    def start_deletion(self, step: ApiCall, existing: ExistingResource, request_id: str) -> str:
        """Delete the resource, cancelling it first if needed; wait while another one uses it."""
        if step.identity == "ran":
            return ""  # deleted with its job
        if existing.must_cancel_first:
            self._cancel(step, existing)
        query = step.delete_query
        if step.takes_request_id:
            query = (*query, ("requestId", request_id))
        method, url, body = "DELETE", _url(step.root, existing.path, query), ""
        if step.identity == "deployed":
            method, url = "POST", _url(step.root, f"{existing.path}:undeployModel")
            body = json.dumps({"deployedModelId": existing.child})
        error = ApiError("timeout", f"{existing.path} is still in use", RESUME)
        for _ in self._backoff(BUSY_TIMEOUT_S):
            response = self.send(method, url, body)
            if response.status == 404:
                return ""
            if response.status < 400:
                return _operation(step, response.body)
            error = api_error_from(response)
            is_busy = error.code in BUSY or (
                response.status == 409 and step.api.startswith("container")
            )
            if not is_busy:
                break
        raise error

    def send(
        self, method: str, url: str, body: str = "", *, is_idempotent: bool = True
    ) -> HttpResponse:
        """Send a request and retry while the server is unavailable.

        A request that is not idempotent is sent again only if the server rejected it unseen (429).
        """
        try:
            return RETRY.run(
                lambda: self.transport.send(method, url, body),
                lambda error: (
                    RETRY.retries(error, is_idempotent=is_idempotent)
                    and not _is_out_of_stock(error)
                ),
                self.clock.sleep,
            )
        except HttpError as error:
            status, last = error.response.status, str(api_error_from(error.response))
            if status not in RETRY.statuses or _is_out_of_stock(error):
                return error.response
        except NoResponseError as error:
            status, last = 0, redacted(error.problem.what)
        if not is_idempotent and status not in RETRY.rejected_statuses:
            raise UnknownOutcomeError(last)
        what = f"no response after {RETRY.attempts} tries: {last}"
        raise ExternalError(url.split("?")[0], what, RESUME)

    def _backoff(self, timeout_s: float) -> Iterator[None]:
        """Yield at once, then after exponentially longer waits until the timeout."""
        waited_s, polls = 0.0, 0
        while waited_s < timeout_s:
            yield
            polls += 1
            self.clock.sleep(RETRY.backoff_s(polls))
            waited_s += RETRY.backoff_s(polls)

    def _get(self, step: ApiCall, path: str) -> dict[str, Plain] | None:
        response = self.send("GET", _url(step.root, path))
        if response.status == 404:
            return None
        if response.status >= 400:
            error = api_error_from(response)
            raise ExternalError(path, str(error), error.fix)
        return response.body if isinstance(response.body, dict) else {}

    def read(self, step: ApiCall) -> dict[str, Plain] | None:
        """Return the resource of a step as the server has it; None if there is none."""
        return self._find_row(step) if step.identity == "listed" else self._get(step, step.resource)

    def _find_row(self, step: ApiCall) -> dict[str, Plain] | None:
        query = (("filter", f'displayName="{step.name}"'),)
        for row in pages(self, step.root, step.resource, query):
            if row.get("displayName") == step.name and ownership_labels(row) == step.labels:
                return row
        return None

    def _wait(self, step: ApiCall, operation: str) -> ApiError | None:
        """The error that an operation ended with; None if it succeeded or is no longer known."""
        for _ in self._backoff(OPERATION_TIMEOUT_S):
            tree = self._get(step, operation)
            if tree is None or _is_done(tree):
                return operation_error(tree or {})
        what = f"not done after {OPERATION_TIMEOUT_S / 60:.0f} minutes"
        raise ExternalError(operation, what, RESUME)

    def _cancel(self, step: ApiCall, existing: ExistingResource) -> None:
        separator = "/" if step.api.startswith("compute") else ":"
        response = self.send("POST", _url(step.root, f"{existing.path}{separator}cancel"))
        if response.status < 400:
            self.finish(step, _operation(step, response.body))
        for _ in self._backoff(BUSY_TIMEOUT_S):
            current = self.find(step)
            if current is None or not current.must_cancel_first:
                return


def pages(
    client: GoogleClient, root: str, path: str, query: tuple[tuple[str, str], ...] = ()
) -> Iterator[dict[str, Plain]]:
    """Yield every row of a list method, across its pages and aggregated scopes."""
    token = ""
    while True:
        page_query = (*query, ("pageToken", token)) if token else query
        response = client.send("GET", _url(root, path, page_query))
        if response.status >= 400:
            raise api_error_from(response)
        tree = response.body if isinstance(response.body, dict) else {}
        yield from _rows(tree)
        token = str(tree.get("nextPageToken") or "")
        if not token:
            return


def _rows(tree: dict[str, Plain]) -> Iterator[dict[str, Plain]]:
    items = tree.get("items")
    if isinstance(items, dict):
        for scope in items.values():
            if isinstance(scope, dict):
                yield from _rows({key: value for key, value in scope.items() if key != "warning"})
        return
    for key, value in tree.items():
        if isinstance(value, list) and key != "unreachable":
            yield from (row for row in value if isinstance(row, dict))


def _is_out_of_stock(error: ExternalError) -> bool:
    return isinstance(error, HttpError) and is_out_of_capacity(api_error_from(error.response))


def _url(root: str, path: str, query: tuple[tuple[str, str], ...] = ()) -> str:
    return f"{root}{path}?{urlencode(query)}" if query else f"{root}{path}"


def _is_done(operation: dict[str, Plain]) -> bool:
    return operation.get("done") is True or operation.get("status") == "DONE"


def _target(operation: dict[str, Plain]) -> str:
    """The path of the resource that an operation works on; empty if it names none."""
    metadata = operation.get("metadata")
    inner = metadata.get("target") if isinstance(metadata, dict) else ""
    return str(operation.get("targetLink") or inner or "")


def _scope(step: ApiCall) -> str:
    """The zone, region or location that holds the operations of a step."""
    match = SCOPE.match(step.path)
    return match[0] if match else ""


def _operation(step: ApiCall, body: Plain) -> str:
    """The path of the operation in a response; empty if the work is already done."""
    name = str(body.get("name", "")) if isinstance(body, dict) else ""
    if not name or step.api.startswith("storage"):
        return ""
    if "/operations/" in name:
        return f"{step.path.split('/')[0]}/{name}"
    if step.api.startswith(("compute", "container")):
        return f"{_scope(step)}/operations/{name}"
    return ""


def _deployed_model(step: ApiCall, endpoint: dict[str, Plain]) -> ExistingResource | None:
    models = endpoint.get("deployedModels")
    for model in models if isinstance(models, list) else []:
        if isinstance(model, dict) and model.get("displayName") == step.name:
            return ExistingResource(
                path=step.resource,
                labels=ownership_labels(endpoint),
                child=str(model.get("id", "")),
            )
    return None


def _existing(step: ApiCall, path: str, tree: dict[str, Plain]) -> ExistingResource:
    state = tree.get("state") or tree.get("status")
    if isinstance(state, dict):  # queued resources nest it
        state = state.get("state")
    state_name = str(state or "")
    final_states = FINAL_STATES.get(step.collection)
    return ExistingResource(
        path=path,
        labels=ownership_labels(tree),
        is_partial=state_name in PARTIAL_STATES.get(step.api.split(".")[0], ()),
        must_cancel_first=final_states is not None and state_name not in final_states,
    )

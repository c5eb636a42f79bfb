"""OpenAPI 3.1 description of `gpuyard serve`, answered at /openapi.json.

It describes the protocol and not the served models: their inputs are in `/v2/models/NAME`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuyard.document.frozen_json import FrozenJson
from gpuyard.http import Json
from gpuyard.serving.openapi_schemas import Tree, reference, schemas

_JSON = "application/json"
# Errors that any request can get: wrong host or page, too slow, overloaded.
_ALWAYS = (400, 403, 408, 503)
_ERRORS = {
    400: "The request is wrong; the message names the place",
    401: "The API key or management token is missing or wrong",
    403: "The request is addressed to another host name, or is of a page elsewhere",
    404: "No such route, model or version is served",
    405: "Another method is needed; see the header allow",
    408: "The request took longer than the time limit",
    413: "The body is larger than the limit",
    415: "The body is compressed, or a change of the repository is not sent as JSON",
    422: "The model has no finite answer for these inputs",
    431: "The headers are larger than the limit",
    500: "The model failed",
    503: "Not ready, or too many requests at once",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One path and method of the service."""

    path: str
    method: str
    id: str
    summary: str
    response: str  # name of the schema of a 200
    body: str = ""  # name of the schema of the request body
    errors: tuple[int, ...] = ()
    security: tuple[str, ...] = ("apiKey", "apiKeyBearer")
    kind: str = _JSON  # media type of a 200
    stream: bool = False  # the response may be a stream of server-sent events


def _get(path: str, id: str, summary: str, response: str, *errors: int) -> Operation:  # noqa: A002
    return Operation(
        path=path, method="get", id=id, summary=summary, response=response, errors=errors
    )


def _post(path: str, id: str, summary: str, body: str, response: str) -> Operation:  # noqa: A002
    errors = (401, 404, 413, 415)
    return Operation(
        path=path,
        method="post",
        id=id,
        summary=summary,
        body=body,
        response=response,
        errors=errors,
    )


_MODEL, _VERSION = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
_REPOSITORY = "/v2/repository/models/{name}"
_MODEL_FAILS = (401, 404, 413, 415, 422, 500)
OPERATIONS: tuple[Operation, ...] = (
    _get("/", "service", "Name, version and links", "Service", 401),
    _get("/openapi.json", "openapi", "This document", "Document", 401),
    replace(
        _get("/metrics", "metrics", "Metrics of all workers for Prometheus", "Text", 401),
        kind="text/plain",
    ),
    _get("/v2/monitoring", "monitoring", "Input drift and shadows", "Monitoring", 401),
    _get("/v2", "server", "Name, version and extensions", "Server", 401),
    replace(_get("/v2/health/live", "live", "Whether the server runs", "Live"), security=()),
    replace(
        _get("/v2/health/ready", "ready", "Whether a model is served; 503 if none is", "Ready"),
        security=(),
    ),
    _get(_MODEL, "model", "Inputs, outputs and classes of a model", "Model", 401, 404),
    _get(f"{_MODEL}/ready", "modelReady", "Whether a model is served", "ModelReady", 401, 404),
    replace(
        _post(
            f"{_MODEL}/infer",
            "infer",
            "Inference with the active version or its canary",
            "InferenceRequest",
            "InferenceResponse",
        ),
        errors=_MODEL_FAILS,
    ),
    _get(_VERSION, "version", "Inputs, outputs and classes of a version", "Model", 401, 404),
    _get(
        f"{_VERSION}/ready", "versionReady", "Whether a version is served", "ModelReady", 401, 404
    ),
    replace(
        _post(
            f"{_VERSION}/infer",
            "inferVersion",
            "Inference with one version",
            "InferenceRequest",
            "InferenceResponse",
        ),
        errors=_MODEL_FAILS,
    ),
    replace(
        _post("/v2/repository/index", "index", "The versions that are served", "", "Index"),
        errors=(401, 413, 415),
    ),
    replace(
        _post(
            f"{_REPOSITORY}/load",
            "load",
            "Load a version or alias of a model",
            "LoadRequest",
            "Loaded",
        ),
        security=("management",),
    ),
    replace(
        _post(f"{_REPOSITORY}/unload", "unload", "Unload a model", "Nothing", "Unloaded"),
        security=("management",),
    ),
    _get(
        "/v1/models",
        "languageModels",
        "Language models, as OpenAI lists them",
        "LanguageModels",
        401,
    ),
    replace(
        _post(
            "/v1/completions",
            "complete",
            "Completion of a prompt by a language model",
            "CompletionRequest",
            "Completion",
        ),
        errors=(401, 404, 413, 415, 500),
        stream=True,
    ),
    replace(
        _post(
            "/v1/chat/completions",
            "chat",
            "Answer of a language model in a conversation",
            "ChatRequest",
            "Completion",
        ),
        errors=(401, 404, 413, 415, 500),
        stream=True,
    ),
)


def _content(operation: Operation) -> Tree:
    content: Tree = {operation.kind: {"schema": reference(operation.response)}}
    if operation.stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    if operation.response == "InferenceResponse":
        content["application/octet-stream"] = {
            "schema": {"description": "JSON, then the binary tensors"}
        }
    return content


def _operation(operation: Operation) -> Tree:
    responses: Tree = {"200": {"description": "OK", "content": _content(operation)}}
    for status in sorted({*_ALWAYS, *operation.errors}):
        schema = "Ready" if operation.id == "ready" and status == 503 else "Error"
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": {_JSON: {"schema": reference(schema)}},
        }
    tree: Tree = {
        "operationId": operation.id,
        "summary": operation.summary,
        "security": [{scheme: []} for scheme in operation.security],
        "responses": responses,
    }
    if operation.body:
        tree["requestBody"] = {
            "required": operation.body not in ("LoadRequest", "Nothing"),
            "content": {_JSON: {"schema": reference(operation.body)}},
        }
    return tree


def _path_parameters(path: str) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
        }
        for name in ("name", "version")
        if f"{{{name}}}" in path
    ]


def openapi(version: str) -> FrozenJson:
    """Return the document for a version of gpuyard."""
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        item = paths.setdefault(operation.path, {})
        assert isinstance(item, dict)
        item[operation.method] = _operation(operation)
        if parameters := _path_parameters(operation.path):
            item["parameters"] = parameters
    key: Tree = {"description": "One of the keys of --api-keys; unused without that option"}
    return FrozenJson.of(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "gpuyard serve",
                "version": version,
                "description": "Open Inference Protocol (KServe v2), and completions for language"
                " models. Without API keys, the server answers to its own host names only.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "paths": paths,
            "components": {
                "schemas": schemas(),
                "securitySchemes": {
                    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", **key},
                    "apiKeyBearer": {"type": "http", "scheme": "bearer", **key},
                    "management": {
                        "type": "http",
                        "scheme": "bearer",
                        "description": "The token in management.token of the state directory",
                    },
                },
            },
        }
    )

"""OpenAPI 3.1 description of `gpuyard serve`, answered at /openapi.json.

It describes the protocol and not the served models: their inputs are in `/v2/models/NAME`.
"""

from __future__ import annotations

from dataclasses import dataclass

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


_MODEL, _VERSION = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
_INFER_ERRORS = (401, 404, 413, 415, 422, 500)
_MANAGE: tuple[str, ...] = ("management",)
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        path="/",
        method="get",
        id="service",
        summary="Name, version and links",
        response="Service",
        errors=(401,),
    ),
    Operation(
        path="/openapi.json",
        method="get",
        id="openapi",
        summary="This document",
        response="Document",
        errors=(401,),
    ),
    Operation(
        path="/metrics",
        method="get",
        id="metrics",
        summary="Metrics of all workers for Prometheus",
        response="Text",
        errors=(401,),
        kind="text/plain",
    ),
    Operation(
        path="/v2",
        method="get",
        id="server",
        summary="Name, version and extensions",
        response="Server",
        errors=(401,),
    ),
    Operation(
        path="/v2/health/live",
        method="get",
        id="live",
        summary="Whether the server runs",
        response="Live",
        security=(),
    ),
    Operation(
        path="/v2/health/ready",
        method="get",
        id="ready",
        summary="Whether a model is served; 503 if none is",
        response="Ready",
        security=(),
    ),
    Operation(
        path=_MODEL,
        method="get",
        id="model",
        summary="Inputs, outputs and classes of a model",
        response="Model",
        errors=(401, 404),
    ),
    Operation(
        path=f"{_MODEL}/ready",
        method="get",
        id="modelReady",
        summary="Whether a model is served",
        response="ModelReady",
        errors=(401, 404),
    ),
    Operation(
        path=f"{_MODEL}/infer",
        method="post",
        id="infer",
        summary="Inference with the active version or its canary",
        body="InferenceRequest",
        response="InferenceResponse",
        errors=_INFER_ERRORS,
    ),
    Operation(
        path=_VERSION,
        method="get",
        id="version",
        summary="Inputs, outputs and classes of a version",
        response="Model",
        errors=(401, 404),
    ),
    Operation(
        path=f"{_VERSION}/ready",
        method="get",
        id="versionReady",
        summary="Whether a version is served",
        response="ModelReady",
        errors=(401, 404),
    ),
    Operation(
        path=f"{_VERSION}/infer",
        method="post",
        id="inferVersion",
        summary="Inference with one version",
        body="InferenceRequest",
        response="InferenceResponse",
        errors=_INFER_ERRORS,
    ),
    Operation(
        path="/v2/repository/index",
        method="post",
        id="index",
        summary="The versions that are served",
        response="Index",
        errors=(401, 413, 415),
    ),
    Operation(
        path="/v2/repository/models/{name}/load",
        method="post",
        id="load",
        summary="Load a version or alias of a model",
        body="LoadRequest",
        response="Loaded",
        errors=(401, 404, 413, 415),
        security=_MANAGE,
    ),
    Operation(
        path="/v2/repository/models/{name}/unload",
        method="post",
        id="unload",
        summary="Unload a model",
        body="Nothing",
        response="Unloaded",
        errors=(401, 404, 413, 415),
        security=_MANAGE,
    ),
    Operation(
        path="/v1/models",
        method="get",
        id="languageModels",
        summary="Language models, as OpenAI lists them",
        response="LanguageModels",
        errors=(401,),
    ),
    Operation(
        path="/v1/completions",
        method="post",
        id="complete",
        summary="Completion of a prompt by a language model",
        body="CompletionRequest",
        response="Completion",
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

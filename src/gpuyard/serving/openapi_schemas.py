"""JSON schemas of the requests and responses of `gpuyard serve`, by name, for OpenAPI."""

from __future__ import annotations

from typing import TypeAlias

from gpuyard.http import Json
from gpuyard.serving.completion_requests import MAX_LOGPROBS, MAX_SEED
from gpuyard.serving.language import MAX_TOKENS
from gpuyard.serving.tensors import BYTES, DATATYPES

Tree: TypeAlias = "dict[str, Json]"


def reference(name: str) -> Tree:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def schemas() -> Tree:
    """Return every schema by name."""
    return {**_tensors(), **_service(), **_monitoring(), **_language()}


def _object(required: tuple[str, ...], **properties: Json) -> Tree:
    return {"type": "object", "required": list(required), "properties": dict(properties)}


def _list_of(name: str) -> Tree:
    return {"type": "array", "items": reference(name)}


_TEXT: Tree = {"type": "string"}
_SCALAR: Tree = {"type": ["number", "string", "boolean", "null"]}
_SHAPE: Tree = {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 8}
_DATATYPE: Tree = {"type": "string", "enum": [*DATATYPES, BYTES]}
_PARAMETERS: Tree = {"type": ["object", "null"], "additionalProperties": True}
_SIZE: Tree = {"type": "integer", "minimum": 0}


def _tensors() -> Tree:
    """Return the schemas of the Open Inference Protocol."""
    data: Tree = {
        "description": "Flat in row-major order, or nested by shape; null is a missing value of a"
        " column. NaN and Infinity are not JSON and are refused.",
        "type": "array",
        "items": {"type": ["number", "string", "boolean", "null", "array"]},
    }
    outputs: Tree = {
        **_object(("name",), name=_TEXT, parameters=_PARAMETERS),
        "description": "An output to return; all are returned by default",
    }
    tensor: Tree = {
        **_object(
            ("name", "shape", "datatype"),
            name={**_TEXT, "description": "A column of the model, or x for the features"},
            shape=_SHAPE,
            datatype=_DATATYPE,
            parameters=_PARAMETERS,
            data=data,
        ),
        "description": "data, or binary_data_size in parameters and the bytes after the JSON",
    }
    result = _object(
        ("name", "shape", "datatype"),
        name=_TEXT,
        shape=_SHAPE,
        datatype=_DATATYPE,
        parameters=_object((), binary_data_size=_SIZE),
        data={"type": "array", "items": _SCALAR},
    )
    return {
        "RequestInput": tensor,
        "RequestOutput": outputs,
        "InferenceRequest": _object(
            ("inputs",),
            id=_TEXT,
            inputs={**_list_of("RequestInput"), "minItems": 1},
            outputs={"anyOf": [_list_of("RequestOutput"), {"type": "null"}]},
            parameters=_PARAMETERS,
        ),
        "ResponseOutput": result,
        "InferenceResponse": _object(
            ("model_name", "model_version", "outputs"),
            model_name=_TEXT,
            model_version=_TEXT,
            id=_TEXT,
            outputs=_list_of("ResponseOutput"),
        ),
        "TensorDescription": _object(
            ("name", "datatype", "shape"),
            name=_TEXT,
            datatype=_DATATYPE,
            shape={"type": "array", "items": {"type": "integer", "minimum": -1}},
        ),
        "Model": _object(
            ("name", "versions", "platform", "inputs", "outputs", "parameters"),
            name=_TEXT,
            versions={"type": "array", "items": _TEXT},
            platform=_TEXT,
            inputs=_list_of("TensorDescription"),
            outputs=_list_of("TensorDescription"),
            parameters=_object(
                ("kind", "trainer", "classes", "digest"),
                kind=_TEXT,
                trainer=_TEXT,
                classes={"type": "array", "items": _TEXT},
                digest=_TEXT,
            ),
        ),
    }


def _monitoring() -> Tree:
    """Return the schema of the report on input drift and shadows."""
    number: Tree = {"type": "number"}
    feature = _object(("feature", "psi", "ks", "verdict"), feature=_TEXT, psi=number, ks=number)
    drift = _object(
        ("model", "version", "rows", "features"),
        model=_TEXT,
        version=_TEXT,
        rows=_SIZE,
        features={"type": "array", "items": feature},
    )
    shadow = _object(
        ("model", "version", "requests", "failures", "rows", "rows_different"),
        model=_TEXT,
        version=_TEXT,
        requests=_SIZE,
        failures=_SIZE,
        rows=_SIZE,
        rows_different=_SIZE,
    )
    report = _object(
        ("drift", "shadows", "without_profile"),
        drift={"type": "array", "items": drift},
        shadows={"type": "array", "items": shadow},
        without_profile={"type": "array", "items": _TEXT},
    )
    return {"Monitoring": report}


def _service() -> Tree:
    """Return the schemas of the service, its health and its repository."""
    entry = _object(
        ("name", "version", "state", "reason"), name=_TEXT, version=_TEXT, state=_TEXT, reason=_TEXT
    )
    version: Tree = {
        "type": ["string", "integer"],
        "description": "A number or an alias; without one, what is served is resolved again",
    }
    true: Tree = {"type": "boolean"}
    return {
        "Service": _object(
            ("name", "version", "models", "links"),
            name=_TEXT,
            version=_TEXT,
            models={"type": "object", "additionalProperties": _TEXT},
            links={"type": "object", "additionalProperties": _TEXT},
        ),
        "Document": {"type": "object"},
        "Text": _TEXT,
        "Nothing": {"type": "object"},
        "Server": _object(
            ("name", "version", "extensions"),
            name=_TEXT,
            version=_TEXT,
            extensions={"type": "array", "items": _TEXT},
        ),
        "Live": _object(("live",), live=true),
        "Ready": _object(("ready",), ready=true),
        "ModelReady": _object(("name", "ready"), name=_TEXT, ready=true),
        "Index": {"type": "array", "items": entry},
        "LoadRequest": _object(
            (),
            parameters={
                "type": ["object", "null"],
                "properties": {"version": version},
                "additionalProperties": True,
            },
        ),
        "Loaded": _object(("name", "version"), name=_TEXT, version=_TEXT),
        "Unloaded": _object(("name",), name=_TEXT),
        "Error": _object(("error",), error={"type": ["string", "object"]}),
    }


def _language() -> Tree:
    """Return the schemas of completions, a subset of OpenAI's."""
    model = _object(
        ("id", "object", "created", "owned_by"),
        id=_TEXT,
        object={"const": "model"},
        created=_SIZE,
        owned_by=_TEXT,
    )
    stop: Tree = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}, {"type": "null"}]}
    ids: Tree = {"type": "array", "items": {"type": "integer"}}
    texts: Tree = {"type": "array", "items": _TEXT}
    prompt: Tree = {"anyOf": [_TEXT, ids, texts, {"type": "array", "items": ids}]}
    penalty: Tree = {"type": ["number", "null"], "minimum": -2, "maximum": 2}
    limit: Tree = {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_TOKENS}
    logprobs: Tree = {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_LOGPROBS}
    shared: Tree = {
        "model": _TEXT,
        "temperature": {"type": "number", "minimum": 0, "maximum": 2, "default": 1},
        "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 1},
        "top_k": {"type": "integer", "minimum": -1, "default": 0},
        "n": {"type": "integer", "minimum": 1, "default": 1},
        "stream": {"type": "boolean", "default": False},
        "stop": stop,
        "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_SEED - 1},
        "presence_penalty": penalty,
        "frequency_penalty": penalty,
        "logit_bias": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
        "response_format": {"type": ["object", "null"]},
    }
    message = _object(("role", "content"), role=_TEXT, content=_TEXT)
    return {
        "LanguageModels": _object(
            ("object", "data"), object={"const": "list"}, data={"type": "array", "items": model}
        ),
        "CompletionRequest": _object(
            ("model", "prompt"),
            prompt=prompt,
            max_tokens=limit,
            logprobs=logprobs,
            echo={"type": "boolean", "default": False},
            **shared,
        ),
        "ChatRequest": _object(
            ("model", "messages"),
            messages={"type": "array", "items": message, "minItems": 1},
            max_tokens=limit,
            max_completion_tokens=limit,
            logprobs={"type": ["boolean", "null"]},
            top_logprobs=logprobs,
            **shared,
        ),
        "Completion": _object(
            ("id", "object", "created", "model", "choices"),
            id=_TEXT,
            object={"enum": ["text_completion", "chat.completion"]},
            created=_SIZE,
            model=_TEXT,
            choices={"type": "array", "items": {"type": "object"}},
            usage={"type": "object"},
        ),
    }

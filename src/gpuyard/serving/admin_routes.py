"""Routes other than inference: health, metadata, metrics, model repository and completions."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from time import perf_counter

import msgspec

from gpuyard.document.encode import dump_json
from gpuyard.errors import GpuyardError
from gpuyard.serving.completion_requests import read_chat, read_completion
from gpuyard.serving.completions import LanguageVersion
from gpuyard.serving.handler import MANAGEMENT, Handler, Proto, Scope, error_response
from gpuyard.serving.model_slot import Generating, ModelSlot, Served
from gpuyard.serving.monitoring import monitoring_metrics
from gpuyard.serving.openapi import openapi
from gpuyard.serving.proxied_model import PATHS, ProxiedVersion
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.response_writer import JSON, error_body
from gpuyard.serving.version import RawResponse
from gpuyard.serving.version_metrics import prometheus

log = logging.getLogger("gpuyard.serving")
EXTENSIONS = ("binary_tensor_data", "model_repository")
READERS = {"/v1/completions": read_completion, "/v1/chat/completions": read_chat}
EVENTS = [("content-type", "text/event-stream"), ("cache-control", "no-cache")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRoutes:
    """Handle every request that is not a tensor inference, in one worker."""

    version: str  # of gpuyard

    async def respond(self, handler: Handler, scope: Scope, proto: Proto) -> RawResponse | None:
        """Return the response, or None if it has already been streamed."""
        path, method = scope.path.rstrip("/") or "/", scope.method
        if path.startswith("/v2/repository/"):
            return await self._repository(handler, scope, proto, path)
        if path in PATHS:
            return await self._completion(handler, scope, proto, path)
        if handler.models.paths.get(path) is not None:
            return 405, [JSON, ("allow", "POST")], error_body("use POST")
        response = self._read(handler, path)
        if response is None:
            raise RequestError(404, f"no route {path[:200]}")
        if method not in ("GET", "HEAD"):
            return 405, [JSON, ("allow", "GET")], error_body("use GET")
        return response

    def _read(self, handler: Handler, path: str) -> RawResponse | None:
        models = handler.models
        if path == "/":
            return _json(self._service(handler))
        if path == "/openapi.json":
            return 200, [JSON], openapi(self.version).text.encode()
        if path == "/v2":
            return _json({"name": "gpuyard", "version": self.version, "extensions": EXTENSIONS})
        if path == "/v2/health/live":
            return _json({"live": True})
        if path == "/v2/health/ready":
            return _json({"ready": models.is_ready}, 200 if models.is_ready else 503)
        if path == "/metrics":
            return _metrics(handler)
        if path == "/v2/monitoring":
            return 200, [JSON], dump_json(models.monitoring()).encode()
        if path == "/v1/models":
            rows = [
                {
                    "id": name,
                    "object": "model",
                    "created": slot.active.created,
                    "owned_by": "gpuyard",
                }
                for name, slot in models.slots.items()
                if isinstance(slot.active, Generating)
            ]
            return _json({"object": "list", "data": rows})
        return self._model(handler, path) if path.startswith("/v2/models/") else None

    def _service(self, handler: Handler) -> dict[str, object]:
        return {
            "name": "gpuyard",
            "version": self.version,
            "models": {name: f"/v2/models/{name}" for name in handler.models.slots},
            "links": {
                "health": "/v2/health/ready",
                "metadata": "/v2",
                "metrics": "/metrics",
                "openapi": "/openapi.json",
            },
        }

    def _model(self, handler: Handler, path: str) -> RawResponse | None:
        name, *rest = path.removeprefix("/v2/models/").split("/")
        slot = handler.models.slots.get(name)
        if slot is None:
            raise RequestError(404, f'model "{name[:100]}" is not served')
        version = slot.active
        if len(rest) >= 2 and rest[0] == "versions":
            wanted, rest = rest[1], rest[2:]
            match = next(
                (item for item in slot.versions() if item.resolved.version == wanted), None
            )
            if match is None:
                raise RequestError(404, f'model "{name}": version "{wanted[:100]}" is not served')
            version = match
        if rest == ["ready"]:
            return _json({"name": name, "ready": True})
        if rest == ["infer"]:
            raise RequestError(404, f'model "{name}" is a language model; use /v1/completions')
        return _json(_metadata(slot, version)) if not rest else None

    async def _repository(
        self, handler: Handler, scope: Scope, proto: Proto, path: str
    ) -> RawResponse:
        if scope.method != "POST":
            return 405, [JSON, ("allow", "POST")], error_body("use POST")
        body = await handler.body(scope.headers, proto)
        models = handler.models
        if path == "/v2/repository/index":
            rows = [
                {"name": name, "version": version.resolved.version, "state": "READY", "reason": ""}
                for name, slot in models.slots.items()
                for version in slot.versions()
            ]
            return _json(rows)
        name, _, action = path.removeprefix(MANAGEMENT).partition("/")
        try:
            if action == "load":
                resolved = await models.load(name, _reference(name, body))
                return _json({"name": name, "version": resolved.version})
            if action == "unload" and name in models.slots:
                await models.unload(name)
                return _json({"name": name})
        except GpuyardError as error:
            raise RequestError(400, str(error)) from None
        raise RequestError(404, f"no route {path[:200]}")

    async def _completion(
        self,
        handler: Handler,
        scope: Scope,
        proto: Proto,
        path: str,
    ) -> RawResponse | None:
        try:
            if scope.method != "POST":
                raise RequestError(405, "use POST")
            body = await handler.body(scope.headers, proto)
            proxied = _proxied(handler, body)
            if proxied is not None:
                return await _pass_on(handler, proto, proxied, path, body)
            if path not in READERS:
                raise RequestError(404, f"{path} needs a model in an engine: --engine NAME")
            request = READERS[path](body)
            slot = handler.models.slots.get(request.model)
            if slot is None or not isinstance(slot.active, LanguageVersion):
                raise RequestError(404, f'language model "{request.model[:100]}" is not served')
            if not request.stream:
                return await slot.active.complete(request)
            events = slot.active.events(request)
            first = await anext(events)  # a request error is raised here, before streaming starts
        except (RequestError, ModelError) as error:
            status = error.status if isinstance(error, RequestError) else 500
            kind = "server_error" if status >= 500 else "invalid_request_error"
            body = msgspec.json.encode(
                {"error": {"message": str(error), "type": kind, "param": None, "code": None}}
            )
            return status, error_response(RequestError(status, ""))[1], body
        handler.exempt_from_time_limit()
        stream = proto.response_stream(200, EVENTS)
        await slot.active.send(stream, first, events)
        return None


class _Addressed(msgspec.Struct):
    model: str


def _proxied(handler: Handler, body: bytes) -> ProxiedVersion | None:
    """Return the engine of the model that a request names, if it has one."""
    try:
        name = msgspec.json.decode(body, type=_Addressed).model
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None  # reported by the reader of the request
    slot = handler.models.slots.get(name)
    return slot.active if slot is not None and isinstance(slot.active, ProxiedVersion) else None


async def _pass_on(
    handler: Handler, proto: Proto, engine: ProxiedVersion, path: str, body: bytes
) -> RawResponse | None:
    """Pass a request on to an engine; None if the response has been streamed."""
    start, status, answer = perf_counter(), 503, b""
    try:
        reply = await engine.send(path, body)
        try:
            if not reply.is_stream:
                answer = await reply.read()
                status = reply.status
                return status, [("content-type", reply.content_type)], answer
            handler.exempt_from_time_limit()
            stream = proto.response_stream(reply.status, EVENTS)
            status = reply.status
            try:
                async for chunk in reply.chunks():
                    await stream.send_bytes(chunk)
            except Exception as error:  # the client or the engine has gone
                log.warning("%s: stream ended early: %s", engine.resolved.name, error)
            return None
        finally:
            reply.close()
    except asyncio.CancelledError:
        status = 408
        raise
    finally:
        engine.count(status, start, answer)


def _metrics(handler: Handler) -> RawResponse:
    models = handler.models
    gauges = (
        (
            "gpuyard_requests_under_way",
            "In-flight requests in this worker.",
            float(handler.in_flight),
        ),
        ("gpuyard_swaps", "Versions replaced in this worker.", float(models.swaps)),
        (
            "gpuyard_swaps_refused",
            "Models whose new version has other inputs, outputs or classes.",
            float(models.refused),
        ),
        ("gpuyard_canaries_withdrawn", "Canaries rolled back.", float(models.rolled_back)),
    )
    text = prometheus(models.snapshots(), gauges) + monitoring_metrics(models.monitoring())
    return 200, [("content-type", "text/plain; version=0.0.4; charset=utf-8")], text.encode()


def _json(value: object, status: int = 200) -> RawResponse:
    return status, [JSON], msgspec.json.encode(value)


class _LoadRequest(msgspec.Struct):
    parameters: dict[str, object] | None = None


_LOAD_REQUEST = msgspec.json.Decoder(_LoadRequest)


# The version or alias in `{"parameters": {"version": "3"}}`; empty for the current reference.
def _reference(name: str, body: bytes) -> str:
    try:
        request = _LOAD_REQUEST.decode(body) if body.strip() else _LoadRequest()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(400, f"invalid request: {error}") from None
    version = (request.parameters or {}).get("version", "")
    if isinstance(version, bool) or not isinstance(version, str | int):
        raise RequestError(400, "version is a number or an alias")
    text = str(version)
    if not text:
        return ""
    return f"{name}/{text}" if text.isascii() and text.isdigit() else f"{name}@{text}"


def _metadata(slot: ModelSlot, version: Served) -> dict[str, object]:
    bundle = version.resolved.bundle
    metadata: dict[str, object] = {
        "name": slot.mount.name,
        "versions": [item.resolved.version for item in slot.versions()],
        "platform": "huggingface" if isinstance(version, Generating) else "onnxruntime_onnx",
        "inputs": [],
        "outputs": [],
        "parameters": {
            "kind": bundle.kind,
            "trainer": bundle.trainer,
            "classes": bundle.classes,
            "digest": version.resolved.digest,
        },
    }
    if not isinstance(version, Generating):
        metadata["inputs"] = [
            {"name": name, "datatype": datatype, "shape": list(shape)}
            for name, datatype, shape in version.inputs
        ]
        metadata["outputs"] = [
            {"name": item.name, "datatype": item.datatype, "shape": [-1, *item.tail]}
            for item in version.outputs
        ]
    return metadata

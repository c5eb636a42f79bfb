"""Everything but inference: health, metadata, metrics, the repository of models, and completions."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass

import msgspec

from gpuyard.errors import GpuyardError
from gpuyard.serving.answers import JSON, error_body
from gpuyard.serving.asks import MATRIX
from gpuyard.serving.completions import LanguageVersion, read_completion
from gpuyard.serving.failures import ModelError, RequestError
from gpuyard.serving.fleet import Served, Slot
from gpuyard.serving.handler import Handler, Proto, Scope, refused
from gpuyard.serving.meter import prometheus
from gpuyard.serving.version import Answer

__all__ = ["ServerPages"]

EXTENSIONS = ("binary_tensor_data", "model_repository")
EVENTS = [("content-type", "text/event-stream"), ("cache-control", "no-cache")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPages:
    """The pages of one worker."""

    version: str  # of gpuyard
    token: str = ""  # that the repository asks for; without one it is open where `trusted`
    trusted: bool = False  # the server listens on loopback only

    async def answer(self, handler: Handler, scope: Scope, proto: Proto) -> Answer | None:
        """The answer to a request that is not for inference."""
        path, method = scope.path.rstrip("/") or "/", scope.method
        if path.startswith("/v2/repository/"):
            return await self._repository(handler, scope, proto, path)
        if path == "/v1/completions":
            return await self._completion(handler, scope, proto)
        if handler.fleet.paths.get(path) is not None:
            return 405, [JSON, ("allow", "POST")], error_body("infer takes POST")
        page = self._read(handler, path)
        if page is None:
            raise RequestError(404, f"nothing at {path[:200]}")
        return page if method in ("GET", "HEAD") else (405, [JSON, ("allow", "GET")], error_body("use GET"))

    def _read(self, handler: Handler, path: str) -> Answer | None:
        """Pages that only tell."""
        fleet = handler.fleet
        if path == "/v2":
            return _json({"name": "gpuyard", "version": self.version, "extensions": EXTENSIONS})
        if path == "/v2/health/live":
            return _json({"live": True})
        if path == "/v2/health/ready":
            return _json({"ready": bool(fleet.slots)}, 200 if fleet.slots else 503)
        if path == "/metrics":
            gauges = (
                ("gpuyard_requests_under_way", "Requests in this worker.", float(handler.under_way)),
                ("gpuyard_swaps", "Versions replaced in this worker.", float(fleet.swaps)),
                ("gpuyard_canaries_withdrawn", "Canaries taken back.", float(fleet.withdrawn)),
            )
            text = prometheus(fleet.readings(), gauges)
            return 200, [("content-type", "text/plain; version=0.0.4; charset=utf-8")], text.encode()
        if path == "/v1/models":
            rows = [{"id": name, "object": "model", "created": slot.active.created, "owned_by": "gpuyard"}
                    for name, slot in fleet.slots.items() if isinstance(slot.active, LanguageVersion)]  # fmt: skip
            return _json({"object": "list", "data": rows})
        return self._model(handler, path) if path.startswith("/v2/models/") else None

    def _model(self, handler: Handler, path: str) -> Answer | None:
        """A model's metadata, or whether it is ready."""
        name, *rest = path.removeprefix("/v2/models/").split("/")
        slot = handler.fleet.slots.get(name)
        if slot is None:
            raise RequestError(404, f'no model "{name[:100]}" is served here')
        version = slot.active
        if len(rest) >= 2 and rest[0] == "versions":
            wanted, rest = rest[1], rest[2:]
            match = next((item for item in slot.versions() if item.found.version == wanted), None)
            if match is None:
                raise RequestError(404, f'model "{name}" has no version "{wanted[:100]}" here')
            version = match
        if rest == ["ready"]:
            return _json({"name": name, "ready": True})
        if rest == ["infer"]:
            raise RequestError(404, f'model "{name}" is a language model; use /v1/completions')
        return _json(_metadata(slot, version)) if not rest else None

    async def _repository(self, handler: Handler, scope: Scope, proto: Proto, path: str) -> Answer:
        """The model repository extension: index, load, unload."""
        self._admit(scope)
        if scope.method != "POST":
            return 405, [JSON, ("allow", "POST")], error_body("use POST")
        body = await handler.body(scope.headers, proto)
        fleet = handler.fleet
        if path == "/v2/repository/index":
            rows = [{"name": name, "version": version.found.version, "state": "READY", "reason": ""}
                    for name, slot in fleet.slots.items() for version in slot.versions()]  # fmt: skip
            return _json(rows)
        name, _, action = path.removeprefix("/v2/repository/models/").partition("/")
        try:
            if action == "load":
                found = await fleet.load(name, _reference(name, body))
                return _json({"name": name, "version": found.version})
            if action == "unload" and name in fleet.slots:
                await fleet.unload(name)
                return _json({"name": name})
        except GpuyardError as error:
            raise RequestError(400, str(error)) from None
        raise RequestError(404, f"nothing at {path[:200]}")

    def _admit(self, scope: Scope) -> None:
        """Refuses those who may not change what is served."""
        given = (scope.headers.get("authorization") or "").removeprefix("Bearer ")
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            raise RequestError(401, "the repository needs the token: Authorization: Bearer TOKEN")
        if not self.token and not self.trusted:
            raise RequestError(403, "start the server with $GPUYARD_SERVE_TOKEN set to change models over the network")

    async def _completion(self, handler: Handler, scope: Scope, proto: Proto) -> Answer | None:
        """A completion, whole or in pieces; errors in OpenAI's form."""
        try:
            if scope.method != "POST":
                raise RequestError(405, "use POST")
            ask = read_completion(await handler.body(scope.headers, proto))
            slot = handler.fleet.slots.get(ask.model)
            if slot is None or not isinstance(slot.active, LanguageVersion):
                raise RequestError(404, f'no language model "{ask.model[:100]}" is served here')
            if not ask.stream:
                return await slot.active.complete(ask)
            events = slot.active.events(ask)
            first = await anext(events)  # what is wrong with the request shows here, before the answer begins
        except (RequestError, ModelError) as error:
            status = error.status if isinstance(error, RequestError) else 500
            kind = "server_error" if status >= 500 else "invalid_request_error"
            body = msgspec.json.encode({"error": {"message": str(error), "type": kind, "param": None, "code": None}})
            return status, refused(RequestError(status, ""))[1], body
        handler.unclocked()
        stream = proto.response_stream(200, EVENTS)
        await slot.active.send(stream, first, events)
        return None


def _json(value: object, status: int = 200) -> Answer:
    """A page of JSON."""
    return status, [JSON], msgspec.json.encode(value)


def _reference(name: str, body: bytes) -> str:
    """What a load asks for: `{"parameters": {"version": "3"}}` or an alias there; empty: what is mounted."""
    try:
        asked = json.loads(body) if body.strip() else {}
        version = asked.get("parameters", {}).get("version", "") if isinstance(asked, dict) else ""
    except (ValueError, AttributeError, RecursionError):
        raise RequestError(400, "the body is not JSON with parameters") from None
    text = str(version)
    return "" if not text else f"{name}/{text}" if text.isdigit() else f"{name}@{text}"


def _metadata(slot: Slot, version: Served) -> dict[str, object]:
    """A model's metadata."""
    bundle = version.found.bundle
    found: dict[str, object] = {
        "name": slot.mount.name,
        "versions": [item.found.version for item in slot.versions()],
        "platform": "huggingface" if isinstance(version, LanguageVersion) else "onnxruntime_onnx",
        "inputs": [], "outputs": [],
        "parameters": {"kind": bundle.kind, "trainer": bundle.trainer, "classes": bundle.classes,
                       "digest": version.found.digest},
    }  # fmt: skip
    if not isinstance(version, LanguageVersion):
        matrix = {"name": MATRIX, "datatype": "FP32", "shape": [-1, version.width]}
        found["inputs"] = [
            {"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in version.columns
        ] or [matrix]
        found["outputs"] = [
            {"name": item.name, "datatype": item.datatype, "shape": [-1, *item.tail]} for item in version.outputs
        ]
    return found

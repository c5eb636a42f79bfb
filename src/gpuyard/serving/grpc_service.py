"""The Open Inference Protocol over gRPC, on the event loop, batches and limits of the REST routes.

A worker serves both: the same versions, batches, API keys, limits on size, time and concurrency,
canaries, request log and metrics, in which a response has the status that REST would have given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import grpc
import grpc.aio

from gpuyard.errors import ExternalError
from gpuyard.serving.grpc_messages import HEALTH, MESSAGES, SERVICE
from gpuyard.serving.grpc_tensors import add_output, infer_request, logged_request
from gpuyard.serving.handler import Handler, choose, mirror
from gpuyard.serving.model_slot import Generating, ModelSlot, Served
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.response_writer import JSON, error_body
from gpuyard.serving.spec import ServerSettings
from gpuyard.serving.version import Answer, RawResponse, Version

log = logging.getLogger("gpuyard.serving")
Context = Any  # of grpc.aio: its classes are generic in the messages, which are made at run time
Call: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT, 401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED, 404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED, 413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    422: grpc.StatusCode.FAILED_PRECONDITION, 500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}  # fmt: skip
_SERVING = 1  # of HealthCheckResponse.ServingStatus
_NOT_SERVING = 2
CLIENT_GONE = 499
EXTENSIONS = ("binary_tensor_data",)


class MetadataHeaders:
    """The metadata of a call, read as the headers of a request."""

    __slots__ = ("_values",)

    def __init__(self, context: Context) -> None:
        self._values = dict(context.invocation_metadata() or ())

    def get(self, key: str, default: str | None = None) -> str | None:
        value = self._values.get(key, default)
        return value if isinstance(value, str) else default


class GrpcService:
    """The calls of one worker."""

    def __init__(self, handler: Handler, version: str) -> None:
        self._handler = handler
        self._version = version

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return the handlers of the inference service and of the health service."""
        calls: Mapping[str, Call] = {
            "ServerLive": self.server_live,
            "ServerReady": self.server_ready,
            "ModelReady": self.model_ready,
            "ServerMetadata": self.server_metadata,
            "ModelMetadata": self.model_metadata,
            "ModelInfer": self.model_infer,
        }
        methods = {name: _method(name, self._safely(call)) for name, call in calls.items()}
        health = {"Check": _method("HealthCheck", self._safely(self.health))}
        return (
            grpc.method_handlers_generic_handler(SERVICE, methods),
            grpc.method_handlers_generic_handler(HEALTH, health),
        )

    def _safely(self, call: Call) -> Call:
        """Return the call with errors as statuses of gRPC."""

        async def run(request: Any, context: Context) -> Any:
            try:
                return await call(request, context)
            except (RequestError, ModelError) as error:
                status, message = error.status, str(error)
            except Exception:
                log.exception("a call failed")
                status, message = 500, "internal error"
            code = _CODES.get(status, grpc.StatusCode.UNKNOWN)
            return await context.abort(code, message)

        return run

    async def server_live(self, request: Any, context: Context) -> Any:  # noqa: ARG002
        return MESSAGES["ServerLiveResponse"](live=True)

    async def server_ready(self, request: Any, context: Context) -> Any:  # noqa: ARG002
        return MESSAGES["ServerReadyResponse"](ready=self._handler.models.is_ready)

    async def health(self, request: Any, context: Context) -> Any:  # noqa: ARG002
        slots, ready = self._handler.models.slots, self._handler.models.is_ready
        if request.service not in ("", SERVICE, *slots):
            raise RequestError(404, f'no service "{request.service[:100]}"')
        return MESSAGES["HealthCheckResponse"](status=_SERVING if ready else _NOT_SERVING)

    async def model_ready(self, request: Any, context: Context) -> Any:
        self._handler.guard.admit_program(MetadataHeaders(context))
        self._model(request.name, request.version)
        return MESSAGES["ModelReadyResponse"](ready=True)

    async def server_metadata(self, request: Any, context: Context) -> Any:  # noqa: ARG002
        self._handler.guard.admit_program(MetadataHeaders(context))
        return MESSAGES["ServerMetadataResponse"](
            name="gpuyard", version=self._version, extensions=EXTENSIONS
        )

    async def model_metadata(self, request: Any, context: Context) -> Any:
        self._handler.guard.admit_program(MetadataHeaders(context))
        slot, version = self._model(request.name, request.version)
        metadata = MESSAGES["ModelMetadataResponse"](
            name=request.name,
            versions=[item.resolved.version for item in slot.versions()],
            platform="huggingface" if isinstance(version, Generating) else "onnxruntime_onnx",
        )
        if isinstance(version, Version):
            for name, datatype, shape in version.inputs:
                metadata.inputs.add(name=name, datatype=datatype, shape=shape)
            for output in version.outputs:
                metadata.outputs.add(
                    name=output.name, datatype=output.datatype, shape=(-1, *output.tail)
                )
        return metadata

    async def model_infer(self, request: Any, context: Context) -> Any:
        start, handler = perf_counter(), self._handler
        handler.guard.admit_program(MetadataHeaders(context))
        target = self._target(request.model_name, request.model_version)
        version = choose(target)
        answering, answer, status, message = version, None, 200, ""

        async def infer(item: Version) -> Answer:
            return await item.infer_request(infer_request(item, request))

        try:
            with handler.under_limits(start):
                answering, answer = await handler.infer(target, version, infer)
            mirror(target, infer, answering, answer)
            return _response(answering, answer, bool(request.raw_input_contents))
        except (RequestError, ModelError) as error:
            status, message = error.status, str(error)
            raise
        except asyncio.CancelledError:
            status = CLIENT_GONE
            raise
        except Exception:
            status, message = 500, "internal error"
            raise
        finally:
            seconds = perf_counter() - start
            version.metrics.count(status, seconds)
            if handler.request_log is not None:
                response = _logged_response(answering, answer, status, message)
                handler.request_log.add(version.label, logged_request(request), response, seconds)

    def _model(self, name: str, wanted: str) -> tuple[ModelSlot, Served]:
        slot = self._handler.models.slots.get(name)
        if slot is None:
            raise RequestError(404, f'model "{name[:100]}" is not served')
        for version in slot.versions():
            if wanted in ("", version.resolved.version):
                return slot, version
        raise RequestError(404, f'model "{name}": version "{wanted[:100]}" is not served')

    def _target(self, name: str, wanted: str) -> ModelSlot | Version:
        slot, version = self._model(name, wanted)
        if not isinstance(version, Version):
            what = f'model "{name}" is a language model; use /v1/completions of the REST port'
            raise RequestError(404, what)
        return version if wanted else slot


def _method(name: str, call: Call) -> grpc.RpcMethodHandler:
    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=MESSAGES[f"{name}Request"].FromString,
        response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
    )


def _response(version: Version, answer: Answer, raw: bool) -> Any:
    """Return the outputs: raw bytes for a request that sent raw bytes, else typed contents."""
    request, part = answer
    assert request is not None
    response = MESSAGES["ModelInferResponse"](
        model_name=version.resolved.name, model_version=version.resolved.version, id=request.id
    )
    wanted = [name for name, _ in request.outputs]
    for output, values in version.output_values(part):
        if not wanted or output.name in wanted:
            add_output(response, output, [part.size, *output.tail], values, raw=raw)
    return response


def _logged_response(
    version: Version, answer: Answer | None, status: int, message: str
) -> RawResponse:
    if answer is None:
        return status, [JSON], error_body(message)
    return version.write(answer)


async def start_grpc(settings: ServerSettings, service: GrpcService) -> grpc.aio.Server:
    """Start the gRPC server of a worker; workers share the port."""
    server = grpc.aio.server(
        options=(
            ("grpc.so_reuseport", 1),
            ("grpc.max_receive_message_length", settings.limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", settings.limits.head_bytes),
        )
    )
    server.add_generic_rpc_handlers(service.handlers())
    address = settings.grpc_url
    try:
        if settings.access.tls_cert:
            server.add_secure_port(address, _credentials(settings))
        else:
            server.add_insecure_port(address)
    except RuntimeError as error:
        raise ExternalError(
            address, f"cannot listen: {error}", "choose another --grpc-port"
        ) from None
    await server.start()
    return server


def _credentials(settings: ServerSettings) -> grpc.ServerCredentials:
    access = settings.access
    pair = Path(access.tls_key).read_bytes(), Path(access.tls_cert).read_bytes()
    return grpc.ssl_server_credentials([pair])

"""`gpuyard serve`: serve models from the registry or from folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.registry.bundle import DESCRIPTION
from gpuyard.serving.api_keys import add_key
from gpuyard.serving.deploy import deploy, stop
from gpuyard.serving.endpoints import Endpoint, Endpoints
from gpuyard.serving.live_metrics import read_monitoring
from gpuyard.serving.monitoring import Monitoring
from gpuyard.serving.server import folder_of, serve
from gpuyard.serving.spec import (
    MATRIX,
    AccessSpec,
    BatchSpec,
    CanarySpec,
    DeploySpec,
    InferenceEngineSpec,
    LimitSpec,
    RequestLogSpec,
    ServedModel,
    ServerSettings,
    ShadowSpec,
    check_settings,
)
from gpuyard.serving.version_sources import find_version
from gpuyard.units import RATIO, UnitError, parse

EXAMPLE_FEATURES = 8  # a body with more is too long to read
_BATCH, _LIMITS, _ACCESS = BatchSpec(), LimitSpec(), AccessSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What to serve, and how."""

    models: tuple[str, ...]
    home: Home
    name: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = None
    workers: int = 1
    batch: BatchSpec = _BATCH
    limits: LimitSpec = _LIMITS
    access: AccessSpec = _ACCESS
    canaries: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    engine: InferenceEngineSpec | None = None
    request_log: RequestLogSpec | None = None
    allow_code: bool = False


def read_mount(text: str) -> ServedModel:
    """Parse `MODEL`, `MODEL@ALIAS`, `MODEL/3` or a bundle folder; `NAME=` sets the served name."""
    name, equals, source = text.rpartition("=")
    if equals and not name:
        raise InputError.one(f'model "{text}"', "has no name before the =", "write NAME=MODEL")
    path = Path(source)
    if source.startswith((".", "/")) or (path / DESCRIPTION).is_file():
        return ServedModel(name=name or path.resolve().name, folder=str(path.resolve()))
    return ServedModel(name=name or source.partition("@")[0].partition("/")[0], reference=source)


def read_canary(text: str) -> CanarySpec:
    """Parse `MODEL@ALIAS=10%`."""
    model, equals, share = text.rpartition("=")
    try:
        if not equals or not ("@" in model or "/" in model):
            raise UnitError(f'"{text}" does not name a version and its share', "")
        return CanarySpec(model=model, share_ratio=parse(share, RATIO))
    except UnitError as error:
        raise InputError.one("--canary", error.what, "write it like MODEL@challenger=10%") from None


def read_shadow(text: str) -> ShadowSpec:
    """Parse `MODEL@ALIAS` or `MODEL@ALIAS=10%`."""
    model, _, share = text.partition("=")
    try:
        if not ("@" in model or "/" in model):
            raise UnitError(f'"{text}" does not name a version', "")
        return ShadowSpec(model=model, share_ratio=parse(share or "100%", RATIO))
    except UnitError as error:
        fix = "write it like MODEL@challenger or MODEL@challenger=10%"
        raise InputError.one("--shadow", error.what, fix) from None


def settings_for(options: ServeOptions) -> ServerSettings:
    """Server settings of the options."""
    mounts = tuple(read_mount(text) for text in options.models)
    name = options.name or (mounts[0].name if mounts else "")
    home = Home(path=options.home.path.resolve())
    return check_settings(
        ServerSettings(
            name=name,
            mounts=mounts,
            home=str(home.path),
            folder=str(folder_of(home, name)),
            host=options.host,
            port=options.port,
            grpc_port=options.grpc_port,
            workers=options.workers,
            batch=options.batch,
            limits=options.limits,
            access=_absolute(options.access),
            canaries=tuple(read_canary(text) for text in options.canaries),
            shadows=tuple(read_shadow(text) for text in options.shadows),
            request_log=options.request_log and _absolute_log(options.request_log),
            engine=options.engine,
            allow_code=options.allow_code,
        )
    )


def _absolute(access: AccessSpec) -> AccessSpec:
    """Resolve the paths: a detached server and its clients run in other folders."""
    api_keys, tls_cert, tls_key = (
        str(Path(path).resolve()) if path else ""
        for path in (access.api_keys, access.tls_cert, access.tls_key)
    )
    return replace(access, api_keys=api_keys, tls_cert=tls_cert, tls_key=tls_key)


def _absolute_log(spec: RequestLogSpec) -> RequestLogSpec:
    return replace(spec, path=str(Path(spec.path).resolve()))


def settings_from_spec(spec: DeploySpec, home: Home, model: str) -> ServerSettings:
    """Server settings of `pipeline.deploy`; `model` is the run's, if the spec names none."""
    reference = spec.model or model
    options = ServeOptions(
        models=(reference,),
        home=home,
        name=spec.name,
        host=spec.host,
        port=spec.port,
        grpc_port=spec.grpc_port,
        workers=spec.workers,
        batch=spec.batch,
        limits=spec.limits,
        access=spec.access,
        request_log=spec.request_log,
        engine=spec.engine,
        allow_code=spec.allow_code,
    )
    settings = settings_for(options)
    canaries = (spec.canary,) if spec.canary else ()
    shadows = (spec.shadow,) if spec.shadow else ()
    return check_settings(replace(settings, canaries=canaries, shadows=shadows))


def serve_models(
    options: ServeOptions, on_ready: Callable[[ServerSettings], None] = lambda _: None
) -> None:
    """Serve in this process until it is stopped."""
    serve(settings_for(options), on_ready)


def deploy_models(options: ServeOptions) -> Endpoint:
    """Serve in the background; return the endpoint once it is ready."""
    return deploy(settings_for(options))


def create_api_key(file: Path, name: str) -> str:
    """Add a key to a file of hashed keys, and return the key."""
    return add_key(file, name)


def example_request(mount: ServedModel, home: Home) -> tuple[str, str]:
    """Return the path and body of a request that the served model answers, for the user to try.

    The body is empty for a model of many features.
    """
    bundle = find_version(mount, home, verify=False).bundle
    if bundle.kind == "language":
        body = {"model": mount.name, "prompt": "Once upon a time", "max_tokens": 16}
        return "/v1/completions", json.dumps(body)
    first = bundle.inputs[0]
    width = len(bundle.features) or (first.shape[-1] if first.name == MATRIX else 0)
    path = f"/v2/models/{mount.name}/infer"
    if not 0 < width <= EXAMPLE_FEATURES:
        return path, ""
    row = {"name": MATRIX, "shape": [1, width], "datatype": "FP32", "data": [0] * width}
    return path, json.dumps({"inputs": [row]})


def list_endpoints(home: Home) -> tuple[Endpoint, ...]:
    """List the servers of a state directory, newest first."""
    return Endpoints(home=home).all()


def monitoring_of_endpoint(home: Home, name: str) -> Monitoring:
    """Return input drift and shadows of a running server; InputError without one."""
    return read_monitoring(home, Endpoints(home=home).get(name))


def stop_endpoint(home: Home, name: str) -> Endpoint:
    """Stop a server by name and return it; InputError without one."""
    endpoints = Endpoints(home=home)
    endpoint = endpoints.get(name)
    stop(endpoint)
    return endpoints.get(name)

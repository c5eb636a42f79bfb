"""`gpuyard serve`: models from the registry or from folders behind one server, in the foreground or behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.registry import DESCRIPTION
from gpuyard.serving import (
    BatchSpec,
    CanarySpec,
    DeploySpec,
    Endpoint,
    Endpoints,
    LimitSpec,
    Mount,
    Settings,
    check_settings,
    deploy,
    folder_of,
    serve,
    stop,
)
from gpuyard.units import RATIO, UnitError, parse

__all__ = [
    "ServeAsked", "deploy_models", "list_endpoints", "read_canary", "read_mount", "serve_models", "settings_from_spec",
    "stop_endpoint",
]  # fmt: skip

_BATCH, _LIMITS = BatchSpec(), LimitSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeAsked:
    """What to serve, and how."""

    models: tuple[str, ...]
    home: Home
    name: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    batch: BatchSpec = _BATCH
    limits: LimitSpec = _LIMITS
    canaries: tuple[str, ...] = ()


def read_mount(text: str) -> Mount:
    """`MODEL`, `MODEL@ALIAS`, `MODEL/3` or a bundle's folder; `NAME=` before it serves it under another name."""
    name, equals, source = text.rpartition("=")
    if equals and not name:
        raise InputError.one(f'model "{text}"', "has no name before the =", "write NAME=MODEL")
    path = Path(source)
    if source.startswith((".", "/")) or (path / DESCRIPTION).is_file():
        return Mount(name=name or path.resolve().name, folder=str(path.resolve()))
    return Mount(name=name or source.partition("@")[0].partition("/")[0], reference=source)


def read_canary(text: str) -> CanarySpec:
    """`MODEL@ALIAS=10%`."""
    model, equals, share = text.rpartition("=")
    try:
        if not equals or not ("@" in model or "/" in model):
            raise UnitError(f'"{text}" does not name a version and its share', "")
        return CanarySpec(model=model, share_ratio=parse(share, RATIO))
    except UnitError as error:
        raise InputError.one("--canary", error.what, "write it like MODEL@challenger=10%") from None


def settings_for(asked: ServeAsked) -> Settings:
    """The settings of the server that was asked for."""
    mounts = tuple(read_mount(text) for text in asked.models)
    name = asked.name or (mounts[0].name if mounts else "")
    home = Home(path=asked.home.path.resolve())
    return check_settings(
        Settings(
            name=name, mounts=mounts, home=str(home.path), folder=str(folder_of(home, name)), host=asked.host,
            port=asked.port, workers=asked.workers, batch=asked.batch, limits=asked.limits,
            canaries=tuple(read_canary(text) for text in asked.canaries),
        )
    )  # fmt: skip


def settings_from_spec(spec: DeploySpec, home: Home, model: str) -> Settings:
    """The settings of `pipeline.deploy`; `model` is what the run registered, for a spec that names none."""
    reference = spec.model or model
    asked = ServeAsked(
        models=(reference,), home=home, name=spec.name, host=spec.host, port=spec.port, workers=spec.workers,
        batch=spec.batch, limits=spec.limits,
    )  # fmt: skip
    settings = settings_for(asked)
    return check_settings(replace(settings, canaries=(spec.canary,))) if spec.canary else settings


def serve_models(asked: ServeAsked, told: Callable[[Settings], None] = lambda _: None) -> None:
    """Serves in this process until it is told to stop."""
    serve(settings_for(asked), told)


def deploy_models(asked: ServeAsked) -> Endpoint:
    """Serves in the background; gives the endpoint once it is ready."""
    return deploy(settings_for(asked))


def list_endpoints(home: Home) -> tuple[Endpoint, ...]:
    """The servers of a state directory, the newest first."""
    return Endpoints(home=home).all()


def stop_endpoint(home: Home, name: str) -> Endpoint:
    """Stops a server by its name; InputError if there is none. Gives what it was."""
    endpoints = Endpoints(home=home)
    found = endpoints.get(name)
    stop(found)
    return endpoints.get(name)

"""Deployment settings: `pipeline.deploy` in a workload file and the options of `gpuyard serve`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError, Problem
from gpuyard.units import BYTES, DURATION, RATIO

MATRIX = "x"  # the input of every model: its features
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Dynamic batching: concurrent requests are computed as one batch."""

    rows: Annotated[int, AtLeast(1), Doc("maximum batch size in rows")] = 64
    wait_s: Annotated[
        float, DURATION, Doc("how long a row waits for other requests that are being received")
    ] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """Limits on requests; a request over a limit gets an error response."""

    body_bytes: Annotated[int, BYTES, AtLeast(1), Doc("maximum request body")] = 16_000_000
    time_s: Annotated[float, DURATION, Doc("maximum time from the first byte to the response")] = (
        30.0
    )
    headers_s: Annotated[
        float,
        DURATION,
        Doc("maximum time to receive headers, and between requests of a connection"),
    ] = 15.0
    waiting: Annotated[
        int, AtLeast(1), Doc("maximum in-flight requests per worker; more are rejected with 503")
    ] = 2048
    connections: Annotated[
        int, AtLeast(1), Doc("maximum open connections per worker; more wait to be accepted")
    ] = 8192
    head_bytes: Annotated[
        int, BYTES, AtLeast(8192), Doc("maximum request line and headers together")
    ] = 65_536
    drain_s: Annotated[
        float, DURATION, Doc("time for in-flight requests to finish when the server stops")
    ] = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryGuardSpec:
    """When a canary is rolled back."""

    requests: Annotated[int, AtLeast(1), Doc("canary responses before it is evaluated")] = 50
    errors_ratio: Annotated[
        float, RATIO, Doc("how far its failure rate may exceed that of the active version")
    ] = 0.02
    slowdown: Annotated[
        float, AtLeast(1), Doc("maximum ratio of its p95 latency to that of the active version")
    ] = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySpec:
    """A canary: a second version that serves a share of a model's requests."""

    model: Annotated[str, Doc("NAME@ALIAS or NAME/VERSION")]
    share_ratio: Annotated[float, RATIO, Doc("its share of the requests")] = 0.1
    guard: CanaryGuardSpec = CanaryGuardSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowSpec:
    """A shadow: a second version that gets copies of requests; clients never get its outputs."""

    model: Annotated[str, Doc("NAME@ALIAS or NAME/VERSION")]
    share_ratio: Annotated[float, RATIO, Doc("share of the requests that are copied")] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSpec:
    """Who may send requests to a server, and over what."""

    api_keys: Annotated[
        str, Doc("file of hashed API keys; requests need one of the keys, health does not")
    ] = ""
    tls_cert: Annotated[str, Doc("PEM file of the certificate chain; serves HTTPS")] = ""
    tls_key: Annotated[str, Doc("PEM file of the certificate's private key")] = ""
    insecure: Annotated[
        bool, Doc("listen on the network without API keys: every host that reaches it may use it")
    ] = False
    allow_hosts: Annotated[
        tuple[str, ...], Doc("further host names by which clients address the server")
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLogSpec:
    """Where answered requests are logged, with their inputs and answers."""

    path: Annotated[str, Doc("file that JSON lines are appended to")]
    share_ratio: Annotated[float, RATIO, Doc("share of the requests that is logged")] = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEngineSpec:
    """The inference engine that serves language models; gpuyard starts and watches it."""

    name: Literal["vllm", "sglang", "llama.cpp"]
    arguments: Annotated[tuple[str, ...], Doc("further arguments of its command line")] = ()
    program: Annotated[str, Doc("its program (default: found on PATH)")] = ""
    start_s: Annotated[float, DURATION, Doc("how long `--detach` waits until it is ready")] = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySpec:
    """`pipeline.deploy`: the service that serves the selected model."""

    name: Annotated[str, Doc("name of the service")]
    model: Annotated[str, Doc("NAME@ALIAS or NAME/VERSION (default: the model of this run)")] = ""
    host: Annotated[str, Doc("address to listen on")] = "127.0.0.1"
    port: Annotated[int, AtLeast(0), Doc("port to listen on; 0 selects a free one")] = 8080
    grpc_port: Annotated[
        int | None, AtLeast(0), Doc("port of the same protocol over gRPC (default: none)")
    ] = None
    workers: Annotated[int, AtLeast(1), Doc("worker processes")] = 1
    batch: BatchSpec = BatchSpec()
    limits: LimitSpec = LimitSpec()
    access: AccessSpec = AccessSpec()
    canary: CanarySpec | None = None
    shadow: ShadowSpec | None = None
    engine: InferenceEngineSpec | None = None
    request_log: RequestLogSpec | None = None
    allow_code: Annotated[bool, Doc("serve models that run Python code of their author")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model under its public name, from the registry or from a bundle folder."""

    name: str
    reference: str = ""  # NAME, NAME@ALIAS or NAME/VERSION
    folder: str = ""  # instead of a reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Settings of a server's processes, saved as JSON in its folder."""

    name: str
    mounts: tuple[ServedModel, ...]
    home: str
    folder: str  # of this server: settings, worker board, log
    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int | None = None
    workers: int = 1
    batch: BatchSpec = BatchSpec()
    limits: LimitSpec = LimitSpec()
    access: AccessSpec = AccessSpec()
    canaries: tuple[CanarySpec, ...] = ()
    shadows: tuple[ShadowSpec, ...] = ()
    request_log: RequestLogSpec | None = None
    engine: InferenceEngineSpec | None = None  # of language models; else the workers run them
    allow_code: bool = False
    follow_s: float = 2.0  # how often aliases are resolved again; 0: never

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"{'https' if self.access.tls_cert else 'http'}://{self._address}:{self.port}"

    @property
    def grpc_url(self) -> str:
        """Address for gRPC clients, as HOST:PORT; empty without gRPC."""
        return "" if self.grpc_port is None else f"{self._address}:{self.grpc_port}"

    @property
    def _address(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def check_settings(settings: ServerSettings) -> ServerSettings:
    """Return the settings if they are valid. Raise InputError with all problems otherwise."""
    problems = list(_problems(settings))
    if problems:
        raise InputError(problems)
    return settings


def _problems(settings: ServerSettings) -> Iterator[Problem]:
    names = [mount.name for mount in settings.mounts]
    for name in (*names, *((settings.name,) if names else ())):
        if not _NAME.fullmatch(name):
            fix = (
                "use at most 100 letters, digits, dots, dashes and underscores, "
                "starting with a letter or digit: NAME=MODEL"
            )
            yield Problem(where=f'name "{name[:100]}"', what="not usable in a URL path", fix=fix)
    if not names:
        yield Problem(
            where="serve",
            what="no model",
            fix="name one: NAME, NAME@ALIAS or a bundle folder",
        )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(
            where=f'model "{name}"',
            what="duplicate name",
            fix="rename one of them: NAME=MODEL",
        )
    for where, port in (("port", settings.port), ("grpc port", settings.grpc_port or 0)):
        if not 0 <= port <= 65535:
            yield Problem(where=where, what=f"{port} is not a port", fix="use 0 to 65535")
    if settings.port and settings.port == settings.grpc_port:
        fix = "use another port for gRPC"
        yield Problem(where="grpc port", what=f"{settings.port} is the port of REST", fix=fix)
    if settings.request_log is not None:
        if not 0 < settings.request_log.share_ratio <= 1:
            what = f"{settings.request_log.share_ratio:g} is not a share"
            yield Problem(where="request log", what=what, fix="write a share such as 10%")
        if not Path(settings.request_log.path).parent.is_dir():
            what = f"{Path(settings.request_log.path).parent} is not a folder"
            yield Problem(where="request log", what=what, fix="create the folder first")
    for shadow in settings.shadows:
        if not 0 < shadow.share_ratio <= 1:
            what = f"{shadow.share_ratio:g} is not a share"
            yield Problem(where="shadow", what=what, fix="write NAME@ALIAS, or NAME@ALIAS=10%")
        if shadow.model.partition("@")[0].partition("/")[0] not in names:
            fix = "serve that model too; the shadow gets copies of its requests"
            yield Problem(
                where="shadow", what=f'the model of "{shadow.model}" is not served', fix=fix
            )
    for canary in settings.canaries:
        if not 0 < canary.share_ratio < 1:
            yield Problem(
                where="canary",
                what=f"{canary.share_ratio:g} is not a share",
                fix="write NAME@ALIAS=10%",
            )
        if canary.model.partition("@")[0].partition("/")[0] not in names:
            fix = "serve that model too; the canary takes a share of its requests"
            yield Problem(
                where="canary", what=f'the model of "{canary.model}" is not served', fix=fix
            )

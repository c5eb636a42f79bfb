"""What a deployment is asked for: `pipeline.deploy` in a workload file, and the options of `gpuyard serve`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError, Problem
from gpuyard.units import BYTES, DURATION, RATIO

__all__ = ["BatchSpec", "CanarySpec", "DeploySpec", "GuardSpec", "LimitSpec", "Mount", "Settings", "check_settings"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """Dynamic batching: requests that are there together are computed together."""

    rows: Annotated[int, AtLeast(1), Doc("most rows of one batch")] = 64
    wait_s: Annotated[float, DURATION, Doc("how long a row waits for others when it could be computed at once")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """What a request may take; beyond it the answer is an error and the others go on."""

    body_bytes: Annotated[int, BYTES, AtLeast(1), Doc("largest body of a request")] = 16_000_000
    time_s: Annotated[float, DURATION, Doc("from its first byte to its answer")] = 30.0
    headers_s: Annotated[float, DURATION, Doc("for the head of a request, and between two on one connection")] = 15.0
    waiting: Annotated[int, AtLeast(1), Doc("most requests in the server at once; more are told to come back")] = 2048
    connections: Annotated[int, AtLeast(1), Doc("most open connections of a worker")] = 8192
    drain_s: Annotated[float, DURATION, Doc("for the requests under way when the server is told to stop")] = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSpec:
    """When a canary is taken back."""

    requests: Annotated[int, AtLeast(1), Doc("answers of the canary before it is judged")] = 50
    errors_ratio: Annotated[float, RATIO, Doc("its failures may exceed those of the version in use by this")] = 0.02
    slowdown: Annotated[float, AtLeast(1), Doc("its 95th percentile may be this many times that of the other")] = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CanarySpec:
    """A second version that answers a share of a model's requests."""

    model: Annotated[str, Doc("NAME@ALIAS or NAME/VERSION")]
    share_ratio: Annotated[float, RATIO, Doc("its part of the requests")] = 0.1
    guard: GuardSpec = GuardSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploySpec:
    """`pipeline.deploy`: the service that the chosen model becomes."""

    name: Annotated[str, Doc("of the service")]
    model: Annotated[str, Doc("NAME@ALIAS or NAME/VERSION; the run's own model where it is not given")] = ""
    host: Annotated[str, Doc("address to listen on")] = "127.0.0.1"
    port: Annotated[int, AtLeast(0), Doc("0 takes a free one")] = 8080
    workers: Annotated[int, AtLeast(1), Doc("processes that share the port")] = 1
    batch: BatchSpec = BatchSpec()
    limits: LimitSpec = LimitSpec()
    canary: CanarySpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A model under the name that clients use: from the registry by reference, or a bundle folder."""

    name: str
    reference: str = ""  # NAME, NAME@ALIAS or NAME/VERSION
    folder: str = ""  # in place of a reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a server's processes are started with; saved as JSON in its folder."""

    name: str
    mounts: tuple[Mount, ...]
    home: str
    folder: str  # of this server: settings, what its workers tell each other, log
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    batch: BatchSpec = BatchSpec()
    limits: LimitSpec = LimitSpec()
    canaries: tuple[CanarySpec, ...] = ()
    follow_s: float = 2.0  # how often aliases are looked at; 0: never

    @property
    def url(self) -> str:
        """Where clients find it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def check_settings(settings: Settings) -> Settings:
    """The settings, if they can be served; InputError with all that is wrong."""
    problems = list(_problems(settings))
    if problems:
        raise InputError(problems)
    return settings


def _problems(settings: Settings) -> Iterator[Problem]:
    """What contradicts itself."""
    names = [mount.name for mount in settings.mounts]
    for name in (*names, *((settings.name,) if names else ())):
        if not _NAME.fullmatch(name):
            fix = "use letters, digits, dots, dashes and underscores, at most 100, a letter or digit first: NAME=MODEL"
            yield Problem(where=f'name "{name[:100]}"', what="cannot stand in a path", fix=fix)
    if not names:
        yield Problem(where="serve", what="no model was named", fix="name one: NAME, NAME@ALIAS or a bundle's folder")
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(where=f'model "{name}"', what="is named twice", fix="give one of them another name: NAME=MODEL")
    if not 0 <= settings.port <= 65535:
        yield Problem(where="port", what=f"{settings.port} is not a port", fix="use 0 to 65535")
    for canary in settings.canaries:
        if not 0 < canary.share_ratio < 1:
            yield Problem(where="canary", what=f"{canary.share_ratio:g} is not a share", fix="write NAME@ALIAS=10%")
        if canary.model.partition("@")[0].partition("/")[0] not in names:
            fix = "serve that model too; the canary answers a part of its requests"
            yield Problem(where="canary", what=f'"{canary.model}" has no model beside it', fix=fix)

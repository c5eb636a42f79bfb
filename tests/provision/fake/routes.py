"""Routes of the fake: every method of the API descriptions, by service, verb and path."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from gpuyard.provision.schemas.library import GOOGLE_APIS, Library, Method, library


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method with the pattern of its path."""

    api: str
    method: Method
    pattern: re.Pattern[str]

    @property
    def verb(self) -> str:
        return self.method.name.rsplit(".", 1)[1]

    @property
    def collection(self) -> str:
        return self.method.name.rsplit(".", 2)[1]

    @property
    def books(self) -> Library:
        return library(self.api)


@functools.cache
def routes(service: str) -> tuple[Route, ...]:
    """Return the routes of a service such as compute."""
    found = []
    for api in GOOGLE_APIS:
        if api.split(".")[0] == service:
            for method in library(api).methods.values():
                pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/:]+)", re.escape(method.path))
                found.append(Route(api=api, method=method, pattern=re.compile(pattern)))
    return tuple(found)


def route_of(host: str, http: str, path: str) -> tuple[Route, dict[str, str]] | None:
    """Return the route and path parameters of a request; Vertex AI has regional hosts."""
    service = host.rsplit("-", 1)[-1]
    for route in routes(service):
        if route.method.http == http and (found := route.pattern.fullmatch(path)):
            return route, found.groupdict()
    return None

"""The guard of one worker: which requests reach the models, and which may change them."""

from __future__ import annotations

from typing import Protocol

from gpuyard.serving.access import HostCheck, bearer, is_same_secret
from gpuyard.serving.api_keys import ApiKeys
from gpuyard.serving.request_errors import RequestError

JSON_TYPE = "application/json"
CHALLENGE = ("www-authenticate", "Bearer")


class RequestHeaders(Protocol):
    """The headers of a request."""

    def get(self, key: str, default: str | None = None) -> str | None: ...


class RequestGuard:
    """Decides from the headers alone, before a body is read."""

    __slots__ = ("_hosts", "_keys", "_token")

    def __init__(self, hosts: HostCheck, token: str, keys: ApiKeys | None) -> None:
        self._hosts = hosts
        self._token = token
        self._keys = keys

    def admit(self, headers: RequestHeaders) -> None:
        """Raise RequestError unless the request may use the models and read about them.

        With API keys, the key decides: a page in a browser has none. Without, the request must
        address this server by its own name and must not come from a page elsewhere.
        """
        if self._keys is None:
            self._check_page(headers)
        else:
            self.admit_program(headers)

    def admit_program(self, headers: RequestHeaders) -> None:
        """The same for gRPC, which pages in a browser cannot speak: only the key decides."""
        if self._keys is None:
            return
        given = headers.get("x-api-key") or bearer(headers.get("authorization"))
        # The management token too, so that `gpuyard ui` can read the metrics.
        if not self._keys.name_of(given) and not is_same_secret(given, self._token):
            raise RequestError(401, "API key required: X-API-Key or Authorization: Bearer")

    def admit_management(self, headers: RequestHeaders) -> None:
        """Raise RequestError unless the request may load and unload models."""
        self._check_page(headers)
        if not is_same_secret(bearer(headers.get("authorization")), self._token):
            what = "management token required: Authorization: Bearer TOKEN, from management.token"
            raise RequestError(401, f"{what} in the server's state directory")
        kind = (headers.get("content-type") or "").partition(";")[0].strip().casefold()
        if kind != JSON_TYPE:
            raise RequestError(415, f"send content-type: {JSON_TYPE}")

    def refresh(self) -> None:
        """Read the API keys again if their file has changed."""
        if self._keys is not None:
            self._keys.refresh()

    def _check_page(self, headers: RequestHeaders) -> None:
        host, origin = headers.get("host"), headers.get("origin")
        if not self._hosts.allows_host(host):
            what = f'host "{(host or "")[:100]}" is not a name of this server'
            raise RequestError(403, f"{what}; start it with --allow-host NAME to add one")
        if not self._hosts.allows_origin(origin, host):
            raise RequestError(403, f'requests of pages of "{(origin or "")[:100]}" are refused')

"""Which requests a server accepts: host names, origins, the management token, and exposure.

A web page anywhere can make the browser of a developer send requests to a server on loopback, or
point a host name that it owns at 127.0.0.1 (DNS rebinding). The browser then states the page in
`Origin` and the name in `Host`, and a page can forge neither. Programs other than browsers can, so
whatever changes the server needs a secret as well. `gpuyard serve` and `gpuyard ui` share this.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from gpuyard.errors import ExternalError, InputError, external_error_from
from gpuyard.http import is_loopback
from gpuyard.serving.spec import AccessSpec

TOKEN_FILE = "management.token"  # in the state directory
OTHERS = stat.S_IRWXG | stat.S_IRWXO
MAX_HOST_CHARS = 300  # a DNS name has at most 253, and then there is the port


class HostCheck:
    """The names and addresses by which clients may address a server that listens on `host`."""

    __slots__ = ("_any_address", "_hosts", "_loopback", "_names")

    def __init__(self, host: str, allow_hosts: Iterable[str] = ()) -> None:
        names = {name.strip().rstrip(".").casefold() for name in allow_hosts}
        self._loopback = is_loopback(host)
        # A server on all addresses cannot list them (containers map some), and need not: rebinding
        # needs a name, so an address in `Host` is never the name of a page elsewhere.
        self._any_address = not self._loopback and _is_any(host)
        if not self._loopback:
            names |= {socket.gethostname().casefold(), socket.getfqdn().casefold()}
        self._names = names | {_address(host) or host.casefold()}
        self._hosts: dict[str, bool] = {}

    def allows_host(self, header: str | None) -> bool:
        """Return whether a `Host` header names this server."""
        if header is None or len(header) > MAX_HOST_CHARS:
            return False
        allowed = self._hosts.get(header)
        if allowed is None:
            allowed = self._is_own(header)
            if len(self._hosts) < 1000:  # clients choose the header, so the cache is bounded
                self._hosts[header] = allowed
        return allowed

    def allows_origin(self, origin: str | None, host: str | None) -> bool:
        """Return whether the page that sent the request, if it was a page, is of this server."""
        return origin is None or origin in (f"http://{host}", f"https://{host}")

    def _is_own(self, header: str) -> bool:
        try:
            parts = urlsplit(f"//{header}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        del port  # reading it checks it
        if parts.netloc != header or "@" in header:
            return False
        name = name.rstrip(".")
        if name in self._names:
            return True
        address = _address(name)
        if not address:
            return name == "localhost" and (self._loopback or self._any_address)
        if self._loopback or is_loopback(address):
            return is_loopback(address) and (self._loopback or self._any_address)
        return self._any_address or address in self._names


def _is_any(host: str) -> bool:
    address = _address(host)
    return bool(address) and ipaddress.ip_address(address).is_unspecified


def _address(host: str) -> str:
    """Return an IP address in its canonical form, or an empty string for a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).compressed
    except ValueError:
        return ""


def is_same_secret(given: str, secret: str) -> bool:
    """Compare in a time that does not depend on where the two differ."""
    return hmac.compare_digest(
        given.encode(errors="surrogatepass"), secret.encode(errors="surrogatepass")
    )


def bearer(authorization: str | None) -> str:
    """Return the credential of an `Authorization: Bearer` header, or an empty string."""
    scheme, _, credential = (authorization or "").partition(" ")
    return credential.strip() if scheme.casefold() == "bearer" else ""


def management_token(home: Path) -> str:
    """Return the token of a state directory, which only its owner can read; create it if needed."""
    path = home / TOKEN_FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _create_private(path, secrets.token_urlsafe(32))
        if path.stat().st_mode & OTHERS:
            raise InputError.one(
                str(path), "can be read by other users", f"delete it, or run chmod 600 {path}"
            )
        token = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise external_error_from(error, str(path)) or error from error
    if len(token) < 32:
        raise InputError.one(str(path), "is not a token", "delete it; a new one is created")
    return token


def _create_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; keep one that another process wrote meanwhile."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
    finally:
        temporary.unlink()


def check_exposure(host: str, access: AccessSpec) -> None:
    """Raise InputError for a model server on the network that does not know its clients."""
    if is_loopback(host) or access.api_keys or access.insecure:
        return
    fix = (
        "listen on 127.0.0.1; or create a key with `gpuyard serve --add-api-key NAME --api-keys"
        " FILE` and start with --api-keys FILE, best with --tls-cert and --tls-key; or set"
        " --insecure if everything that reaches this address may use it"
    )
    raise InputError.one(f"--host {host}", "opens the models to the network without a key", fix)


def exposure_warnings(host: str, access: AccessSpec) -> tuple[str, ...]:
    """Return what a server on the network does not protect."""
    if is_loopback(host):
        return ()
    warnings = []
    if not access.tls_cert:
        warnings.append(
            "requests and keys cross the network unencrypted; use --tls-cert and --tls-key, or a"
            " proxy with TLS in front"
        )
    if access.insecure and not access.api_keys:
        warnings.append(f"--insecure: whatever protects {host} protects this server, nothing else")
    return tuple(warnings)


def check_tls(access: AccessSpec) -> None:
    """Raise InputError unless certificate and key are both absent, or are valid and match."""
    if not access.tls_cert and not access.tls_key:
        return
    if not access.tls_cert or not access.tls_key:
        raise InputError.one("TLS", "needs a certificate and its key", "set --tls-cert, --tls-key")
    for path in (access.tls_cert, access.tls_key):
        if not Path(path).is_file():
            raise InputError.one(path, "is not a file", "give the path of a PEM file")
    tls_server_context(access)


def tls_server_context(access: AccessSpec) -> ssl.SSLContext:
    """Return the context of a server; raise InputError if certificate and key do not match."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(access.tls_cert, access.tls_key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        what = f"is not the certificate of {access.tls_key}, or one of them is not PEM: {error}"
        raise InputError.one(
            access.tls_cert, what, "give the chain and its key, without a password"
        ) from error
    except OSError as error:
        raise ExternalError(
            access.tls_key, f"cannot be read: {error.strerror}", "check its permissions"
        ) from error
    return context


def tls_client_context(certificate: str) -> ssl.SSLContext | None:
    """Return the context that trusts one server certificate only, or None without TLS.

    Our own requests go to the address that a server listens on, which its certificate may not name.
    """
    if not certificate:
        return None
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context

"""A provider plugin for `terraform validate`: the shipped schema of hashicorp/google, and no API.

Terraform starts it as a child process and reads from its standard output where it listens
(https://github.com/hashicorp/go-plugin/blob/main/docs/internals.md); protocol 5 is in
https://github.com/hashicorp/terraform/blob/main/docs/plugin-protocol/tfplugin5.proto.
"""

from __future__ import annotations

import base64
import datetime
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gpuyard.provision.schemas.library import provider_resources
from gpuyard.provision.terraform.provider_schema import BlockSchema, resource_schema

LIST, SINGLE = 2, 1  # nesting of a block
PROVIDER = {"project": "string", "region": "string", "zone": "string"}


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: bytes | str | int) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, kind: str, *, required: bool = False, computed: bool = False) -> bytes:
    outer, _, inner = kind.rstrip(")").partition("(")
    cty: object = [outer, inner] if inner else "dynamic" if kind == "any" else kind
    message = field(1, name) + field(2, json.dumps(cty))
    if required:
        return message + field(4, 1)
    return message + (b"" if computed else field(5, 1)) + field(6, 1)


def block(schema: BlockSchema) -> bytes:
    parts = [
        field(2, attribute(name, row.type, required=row.is_required))
        for name, row in schema.arguments.items()
    ]
    parts += [field(2, attribute(name, "string", computed=True)) for name in schema.outputs]
    for name, child in schema.blocks.items():
        nested = field(1, name) + field(2, block(child)) + field(3, LIST)
        nested += field(4, int(child.is_required))
        parts.append(field(3, nested + field(5, 0 if child.is_repeated else 1)))
    return b"".join(parts)


def provider_schema(_: bytes) -> bytes:
    arguments = b"".join(field(2, attribute(name, kind)) for name, kind in PROVIDER.items())
    parts = [field(1, field(2, arguments))]
    for name in provider_resources():
        schema = field(2, block(resource_schema(name)))
        parts.append(field(2, field(1, name) + field(2, schema)))
    return b"".join(parts)


class Methods(grpc.GenericRpcHandler):
    """Schema, and an empty answer to everything else: the configuration is returned as it came."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        name = details.method.rsplit("/", 1)[1]
        if name == "StartStream":
            return grpc.stream_stream_rpc_method_handler(self.wait)
        answers: dict[str, Callable[[bytes], bytes]] = {
            "GetSchema": provider_schema,
            "PrepareProviderConfig": lambda request: request,
            "Shutdown": self.stop,
        }
        answer = answers.get(name, lambda _: b"")
        return grpc.unary_unary_rpc_method_handler(lambda request, _: answer(request))

    def wait(self, _requests: Iterator[bytes], _context: object) -> Iterator[bytes]:
        self.stopped.wait()
        yield from ()

    def stop(self, _: bytes) -> bytes:
        self.stopped.set()
        return b""


def own_certificate() -> tuple[bytes, bytes, bytes]:
    """A key, its certificate, and the certificate for the first line of the output."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    shown = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).rstrip(b"=")
    return private, certificate.public_bytes(serialization.Encoding.PEM), shown


def main() -> None:
    """Serve until Terraform stops it."""
    methods = Methods()
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((methods,))
    private, certificate, shown = own_certificate()
    credentials = grpc.ssl_server_credentials([(private, certificate)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    print(f"1|5|tcp|127.0.0.1:{port}|grpc|{shown.decode()}", flush=True)
    methods.stopped.wait()
    server.stop(1).wait()


if __name__ == "__main__":
    main()

"""Options of the commands that listen: TLS, host names, and exposure to the network."""

from __future__ import annotations

import argparse
import sys

from gpuyard.serving.access import exposure_warnings
from gpuyard.serving.spec import AccessSpec


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--tls-cert", default="", metavar="FILE", help="serve HTTPS with this certificate (PEM)"
    )
    parser.add_argument(
        "--tls-key", default="", metavar="FILE", help="private key of the certificate (PEM)"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="further host name by which clients address the server (repeatable)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen on the network without the protection that is otherwise required",
    )


def read_access(arguments: argparse.Namespace, *, api_keys: str = "") -> AccessSpec:
    """Return what the options say."""
    return AccessSpec(
        api_keys=api_keys,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        insecure=arguments.insecure,
        allow_hosts=tuple(arguments.allow_host),
    )


def print_warnings(host: str, access: AccessSpec) -> None:
    """Print on standard error what the server does not protect."""
    for warning in exposure_warnings(host, access):
        sys.stderr.write(f"warning: {warning}\n")

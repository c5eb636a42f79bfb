"""Options of the commands that listen: TLS, host names, and exposure to the network."""

from __future__ import annotations

import argparse
import sys

from gpuyard.cli.options import add_option
from gpuyard.serving.access import exposure_warnings
from gpuyard.serving.spec import AccessSpec


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_option(
        parser, "--tls-cert FILE", "serve HTTPS with this certificate (PEM)", type=str, default=""
    )
    add_option(
        parser, "--tls-key FILE", "private key of the certificate (PEM)", type=str, default=""
    )
    add_option(
        parser,
        "--allow-host NAME...",
        "further host name by which clients address the server (repeatable)",
    )
    add_option(
        parser,
        "--insecure",
        "listen on the network without the protection that is otherwise required",
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

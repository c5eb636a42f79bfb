"""`gpuyard serve MODEL[@ALIAS] …`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from gpuyard.app.serve import (
    ServeOptions,
    create_api_key,
    deploy_models,
    example_request,
    list_endpoints,
    serve_models,
    settings_for,
    stop_endpoint,
)
from gpuyard.cli.access_options import add_access, print_warnings, read_access
from gpuyard.cli.options import add_json, quantity, whole
from gpuyard.errors import EXIT_OK, InputError
from gpuyard.home import Home
from gpuyard.report.serve import calls, endpoints_table
from gpuyard.report.terminal import print_json, print_table, print_text
from gpuyard.serving.spec import BatchSpec, LimitSpec, ServerSettings
from gpuyard.units import BYTES, DURATION


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    batch, limits = BatchSpec(), LimitSpec()
    parser.epilog = (
        "examples:\n  gpuyard serve churn@champion --port 8080\n  gpuyard serve churn@champion"
        " --canary churn@challenger=10% --workers 4\n  gpuyard serve churn --detach --json; gpuyard"
        " serve --list; gpuyard serve --stop churn\n  gpuyard serve --add-api-key mobile --api-keys"
        " keys.txt\n  gpuyard serve churn --host 0.0.0.0 --api-keys keys.txt --tls-cert cert.pem"
        " --tls-key key.pem\nMODEL is NAME, NAME@ALIAS, NAME/VERSION or a"
        " bundle's folder; NAME=MODEL serves it under another name"
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models to serve")
    parser.add_argument("--name", default="", help="service name (default: the first model's)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8080, help="port; 0 takes a free one (8080)")
    parser.add_argument(
        "--workers", type=whole, default=1, metavar="N", help="worker processes (1)"
    )
    parser.add_argument(
        "--home", type=Path, default=Path(".gpuyard"), metavar="PATH", help="state directory"
    )
    parser.add_argument(
        "--batch-rows",
        type=whole,
        default=batch.rows,
        metavar="N",
        help=f"maximum batch size in rows ({batch.rows})",
    )
    parser.add_argument(
        "--batch-wait",
        type=quantity(DURATION),
        default=batch.wait_s,
        metavar="TIME",
        help="maximum batching delay (0ms)",
    )
    parser.add_argument(
        "--canary",
        action="append",
        default=[],
        metavar="MODEL@ALIAS=SHARE",
        help=(
            "canary: route a share of requests to a second version; rolled back automatically if it"
            " does worse"
        ),
    )
    _add_limits(parser, limits)
    add_access(parser)
    parser.add_argument(
        "--api-keys",
        default="",
        metavar="FILE",
        help="require one of the API keys whose hashes are in the file",
    )
    parser.add_argument(
        "--add-api-key",
        metavar="NAME",
        help="create an API key, add its hash to --api-keys FILE and print it once",
    )
    parser.add_argument(
        "--detach", action="store_true", help="serve in the background; return when ready"
    )
    parser.add_argument("--list", action="store_true", help="list services")
    parser.add_argument(
        "--stop", metavar="NAME", help="stop a service after in-flight requests complete"
    )
    add_json(parser)


def _add_limits(parser: argparse.ArgumentParser, limits: LimitSpec) -> None:
    parser.add_argument(
        "--max-body",
        type=quantity(BYTES),
        default=limits.body_bytes,
        metavar="SIZE",
        help="maximum request size (16MB)",
    )
    parser.add_argument(
        "--max-time",
        type=quantity(DURATION),
        default=limits.time_s,
        metavar="TIME",
        help="request timeout (30s)",
    )
    parser.add_argument(
        "--max-waiting",
        type=whole,
        default=limits.waiting,
        metavar="N",
        help=f"maximum in-flight requests per worker ({limits.waiting})",
    )
    parser.add_argument(
        "--max-connections",
        type=whole,
        default=limits.connections,
        metavar="N",
        help=f"maximum open connections per worker ({limits.connections})",
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is not a port')
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve, list or stop."""
    home = Home(path=arguments.home)
    chosen = sum(
        (
            bool(arguments.models),
            arguments.list,
            arguments.stop is not None,
            arguments.add_api_key is not None,
        )
    )
    if chosen != 1:
        what = "no model" if not chosen else "more than one action"
        fix = "give models, --list, --stop NAME, or --add-api-key NAME"
        raise InputError.one("gpuyard serve", what, fix)
    if arguments.add_api_key is not None:
        return _add_api_key(arguments)
    if arguments.list:
        endpoints = list_endpoints(home)
        if arguments.json:
            print_json(endpoints)
        else:
            print_table(endpoints_table(endpoints))
        return EXIT_OK
    if arguments.stop is not None:
        endpoint = stop_endpoint(home, arguments.stop)
        if arguments.json:
            print_json(endpoint)
        else:
            print_text(f"{endpoint.name}: {endpoint.state}")
        return EXIT_OK
    options = _options(arguments, home)
    if not arguments.detach:
        serve_models(options, lambda settings: _print_urls(settings, arguments.json))
        return EXIT_OK
    print_warnings(options.host, options.access)
    started = deploy_models(options)
    if arguments.json:
        print_json(started)
    else:
        print_text(f"{started.name}: ready at {started.url}; log: {started.log}")
        _print_calls(replace(settings_for(options), port=urlsplit(started.url).port or 0))
        print_text(f"stop it with: gpuyard serve --stop {started.name} --home {home.path}")
    return EXIT_OK


def _add_api_key(arguments: argparse.Namespace) -> int:
    if not arguments.api_keys:
        raise InputError.one("--add-api-key", "no file", "add --api-keys FILE")
    file, name = Path(arguments.api_keys), arguments.add_api_key
    key = create_api_key(file, name)
    if arguments.json:
        print_json({"name": name, "key": key, "file": str(file)})
    else:
        print_text(f"{key}\nsave it now: {file} holds its hash only")
    return EXIT_OK


def _options(arguments: argparse.Namespace, home: Home) -> ServeOptions:
    return ServeOptions(
        models=tuple(arguments.models),
        home=home,
        name=arguments.name,
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        batch=BatchSpec(rows=arguments.batch_rows, wait_s=arguments.batch_wait),
        limits=LimitSpec(
            body_bytes=int(arguments.max_body),
            time_s=arguments.max_time,
            waiting=arguments.max_waiting,
            connections=arguments.max_connections,
        ),
        access=read_access(arguments, api_keys=arguments.api_keys),
        canaries=tuple(arguments.canary),
    )


def _print_urls(settings: ServerSettings, as_json: bool) -> None:
    print_warnings(settings.host, settings.access)
    if as_json:
        print_json({"name": settings.name, "url": settings.url})
    else:
        _print_calls(settings)
        print_text("press Ctrl-C to stop")
    sys.stdout.flush()  # the server keeps running


def _print_calls(settings: ServerSettings) -> None:
    home, with_key = Home(path=Path(settings.home)), bool(settings.access.api_keys)
    for mount in settings.mounts:
        print_text(f"{mount.name}: {settings.url}/v2/models/{mount.name}")
        example = example_request(mount, home)
        print_text(calls(settings.url, mount.name, example, with_key=with_key))

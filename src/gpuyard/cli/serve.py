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
    monitoring_of_endpoint,
    serve_models,
    settings_for,
    stop_endpoint,
)
from gpuyard.cli.access_options import add_access, print_warnings, read_access
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option, quantity
from gpuyard.errors import EXIT_OK, InputError, choices_text
from gpuyard.home import Home
from gpuyard.report.serve import calls, endpoints_table, monitoring_tables
from gpuyard.report.terminal import print_json, print_result, print_table, print_text
from gpuyard.serving.endpoints import Endpoint
from gpuyard.serving.spec import (
    BatchSpec,
    InferenceEngineSpec,
    LimitSpec,
    RequestLogSpec,
    ServerSettings,
)
from gpuyard.units import RATIO


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
    add_option(parser, "models MODEL*", "models to serve")
    add_option(parser, "--name NAME", "service name (default: the first model's)", default="")
    add_option(
        parser, "--host HOST", "address to listen on (default 127.0.0.1)", default="127.0.0.1"
    )
    add_option(parser, "--port PORT", "port; 0 takes a free one (8080)", type=_port, default=8080)
    add_option(
        parser, "--grpc-port PORT", "also serve gRPC on this port; 0 takes a free one", type=_port
    )
    add_option(parser, "--workers N", "worker processes (1)", default=1)
    add_home(parser)
    add_option(
        parser, "--batch-rows N", f"maximum batch size in rows ({batch.rows})", default=batch.rows
    )
    add_option(parser, "--batch-wait TIME", "maximum batching delay (0ms)", default=batch.wait_s)
    add_option(
        parser,
        "--canary MODEL@ALIAS=SHARE...",
        "canary: route a share of requests to a second version; rolled back automatically if it"
        " does worse",
    )
    add_option(
        parser,
        "--shadow MODEL@ALIAS[=SHARE]...",
        "copy requests to a second version after they are answered, and compare its outputs",
    )
    add_option(
        parser,
        "--log-requests PATH",
        "append answered requests, with inputs and outputs, to a file of JSON lines",
    )
    add_option(
        parser,
        "--log-share SHARE",
        "share of the requests that --log-requests keeps",
        type=quantity(RATIO),
        default=1.0,
    )
    add_option(
        parser, "--engine NAME", "serve language models by vllm, sglang or llama.cpp", type=str
    )
    add_option(parser, "--engine-program PATH", "program of the engine", type=str, default="")
    add_option(
        parser, "--engine-arg ARG...", "further argument of the engine: --engine-arg=--dtype=half"
    )
    add_option(
        parser, "--allow-code", "serve models that run Python code of their author, as this user"
    )
    _add_limits(parser, limits)
    add_access(parser)
    add_option(
        parser,
        "--api-keys FILE",
        "require one of the API keys whose hashes are in the file",
        type=str,
        default="",
    )
    add_option(
        parser,
        "--add-api-key NAME",
        "create an API key, add its hash to --api-keys FILE and print it once",
    )
    add_option(parser, "--detach", "serve in the background; return when ready")
    add_option(parser, "--list", "list services")
    add_option(parser, "--report NAME", "input drift and shadows of a running service")
    add_option(parser, "--stop NAME", "stop a service after in-flight requests complete")
    add_json(parser)


def _add_limits(parser: argparse.ArgumentParser, limits: LimitSpec) -> None:
    add_option(parser, "--max-body SIZE", "maximum request size (16MB)", default=limits.body_bytes)
    add_option(parser, "--max-time TIME", "request timeout (30s)", default=limits.time_s)
    add_option(
        parser,
        "--max-waiting N",
        f"maximum in-flight requests per worker ({limits.waiting})",
        default=limits.waiting,
    )
    add_option(
        parser,
        "--max-connections N",
        f"maximum open connections per worker ({limits.connections})",
        default=limits.connections,
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is not a port')
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve, list or stop."""
    home = home_of(arguments)
    chosen = sum(
        (
            bool(arguments.models),
            arguments.list,
            arguments.report is not None,
            arguments.stop is not None,
            arguments.add_api_key is not None,
        )
    )
    if chosen != 1:
        what = "no model" if not chosen else "more than one action"
        fix = "give models, --list, --report NAME, --stop NAME, or --add-api-key NAME"
        raise InputError.one("gpuyard serve", what, fix)
    if arguments.add_api_key is not None:
        return _add_api_key(arguments)
    if arguments.list:
        endpoints = list_endpoints(home)
        print_result(endpoints, endpoints_table(endpoints), as_json=arguments.json)
        return EXIT_OK
    if arguments.report is not None:
        report = monitoring_of_endpoint(home, arguments.report)
        if arguments.json:
            print_json(report)
        else:
            for table in monitoring_tables(report):
                print_table(table)
        return EXIT_OK
    if arguments.stop is not None:
        endpoint = stop_endpoint(home, arguments.stop)
        print_result(endpoint, f"{endpoint.name}: {endpoint.state}", as_json=arguments.json)
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
        _print_calls(_at(settings_for(options), started))
        print_text(f"stop it with: gpuyard serve --stop {started.name} --home {home.path}")
    return EXIT_OK


def _at(settings: ServerSettings, started: Endpoint) -> ServerSettings:
    """Return the settings with the ports that the server has chosen."""
    grpc_port = urlsplit(f"//{started.grpc_url}").port
    return replace(settings, port=urlsplit(started.url).port or 0, grpc_port=grpc_port)


def _add_api_key(arguments: argparse.Namespace) -> int:
    if not arguments.api_keys:
        raise InputError.one("--add-api-key", "no file", "add --api-keys FILE")
    file, name = Path(arguments.api_keys), arguments.add_api_key
    key = create_api_key(file, name)
    print_result(
        {"name": name, "key": key, "file": str(file)},
        f"{key}\nsave it now: {file} holds its hash only",
        as_json=arguments.json,
    )
    return EXIT_OK


def _options(arguments: argparse.Namespace, home: Home) -> ServeOptions:
    return ServeOptions(
        models=tuple(arguments.models),
        home=home,
        name=arguments.name,
        host=arguments.host,
        port=arguments.port,
        grpc_port=arguments.grpc_port,
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
        shadows=tuple(arguments.shadow),
        request_log=_request_log(arguments),
        engine=_engine(arguments),
        allow_code=arguments.allow_code,
    )


def _engine(arguments: argparse.Namespace) -> InferenceEngineSpec | None:
    if arguments.engine is None:
        return None
    name, known = arguments.engine, ("vllm", "sglang", "llama.cpp")
    if name not in known:
        raise InputError.one("--engine", f'no engine "{name}"', f"use {choices_text(known)}")
    return InferenceEngineSpec(
        name=name, arguments=tuple(arguments.engine_arg), program=arguments.engine_program
    )


def _request_log(arguments: argparse.Namespace) -> RequestLogSpec | None:
    if arguments.log_requests is None:
        return None
    return RequestLogSpec(path=str(arguments.log_requests), share_ratio=arguments.log_share)


def _print_urls(settings: ServerSettings, as_json: bool) -> None:
    print_warnings(settings.host, settings.access)
    if as_json:
        urls = {"url": settings.url, "grpc_url": settings.grpc_url}
        print_json({"name": settings.name, **urls})
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
    if settings.grpc_url:
        print_text(f"gRPC: {settings.grpc_url}, inference.GRPCInferenceService")

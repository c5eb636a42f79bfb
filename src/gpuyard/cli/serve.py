"""`gpuyard serve MODEL[@ALIAS] …`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpuyard.app.serve import ServeAsked, deploy_models, list_endpoints, serve_models, stop_endpoint
from gpuyard.cli.exits import EXIT_DONE
from gpuyard.cli.options import add_json, quantity, whole
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.report import print_json, print_table, print_text
from gpuyard.report.serve import endpoints_table
from gpuyard.serving import BatchSpec, LimitSpec, Settings
from gpuyard.units import BYTES, DURATION

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    batch, limits = BatchSpec(), LimitSpec()
    parser.epilog = (
        "examples:\n"
        "  gpuyard serve churn@champion --port 8080\n"
        "  gpuyard serve churn@champion --canary churn@challenger=10% --workers 4\n"
        "  gpuyard serve churn --detach --json; gpuyard serve --list; gpuyard serve --stop churn\n"
        "MODEL is NAME, NAME@ALIAS, NAME/VERSION or a bundle's folder; NAME=MODEL serves it under another name"
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models to serve, each under its own name")
    parser.add_argument("--name", default="", help="of the service (the first model's)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8080, help="0 takes a free one (8080)")
    parser.add_argument("--workers", type=whole, default=1, metavar="N", help="processes that share the port (1)")
    parser.add_argument("--home", type=Path, default=Path(".gpuyard"), metavar="PATH", help="state directory")
    parser.add_argument("--batch-rows", type=whole, default=batch.rows, metavar="N",
                        help=f"most rows computed together ({batch.rows})")  # fmt: skip
    parser.add_argument("--batch-wait", type=quantity(DURATION), default=batch.wait_s, metavar="TIME",
                        help="how long rows wait while others are on their way in (0ms)")  # fmt: skip
    parser.add_argument("--canary", action="append", default=[], metavar="MODEL@ALIAS=SHARE",
                        help="a second version for a share of the requests; taken back if it does worse")  # fmt: skip
    parser.add_argument("--max-body", type=quantity(BYTES), default=limits.body_bytes, metavar="SIZE",
                        help="largest request (16MB)")  # fmt: skip
    parser.add_argument("--max-time", type=quantity(DURATION), default=limits.time_s, metavar="TIME",
                        help="longest request (30s)")  # fmt: skip
    parser.add_argument("--max-waiting", type=whole, default=limits.waiting, metavar="N",
                        help=f"most requests in a worker at once ({limits.waiting})")  # fmt: skip
    parser.add_argument("--detach", action="store_true", help="serve in the background, and return when it is ready")
    parser.add_argument("--list", action="store_true", help="show the services that were started")
    parser.add_argument("--stop", metavar="NAME", help="stop a service; requests under way are answered first")
    add_json(parser)


def _port(text: str) -> int:
    """A port, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f'"{text}" is not a port')
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serves, lists or stops."""
    home = Home(path=arguments.home)
    chosen = sum((bool(arguments.models), arguments.list, arguments.stop is not None))
    if chosen != 1:
        what = "names no model" if not chosen else "names more than one thing to do"
        raise InputError.one("gpuyard serve", what, "give models, or --list, or --stop NAME")
    if arguments.list:
        endpoints = list_endpoints(home)
        print_json(endpoints) if arguments.json else print_table(endpoints_table(endpoints))
        return EXIT_DONE
    if arguments.stop is not None:
        endpoint = stop_endpoint(home, arguments.stop)
        print_json(endpoint) if arguments.json else print_text(f"{endpoint.name}: {endpoint.state}")
        return EXIT_DONE
    asked = _asked(arguments, home)
    if not arguments.detach:
        serve_models(asked, lambda settings: _tell(settings, arguments.json))
        return EXIT_DONE
    started = deploy_models(asked)
    print_json(started) if arguments.json else print_text(f"{started.name}: ready at {started.url}; log: {started.log}")
    return EXIT_DONE


def _asked(arguments: argparse.Namespace, home: Home) -> ServeAsked:
    """What the flags ask for."""
    return ServeAsked(
        models=tuple(arguments.models), home=home, name=arguments.name, host=arguments.host, port=arguments.port,
        workers=arguments.workers, batch=BatchSpec(rows=arguments.batch_rows, wait_s=arguments.batch_wait),
        limits=LimitSpec(
            body_bytes=int(arguments.max_body), time_s=arguments.max_time, waiting=arguments.max_waiting
        ),
        canaries=tuple(arguments.canary),
    )  # fmt: skip


def _tell(settings: Settings, as_json: bool) -> None:
    """Where the server is found."""
    if as_json:
        print_json({"name": settings.name, "url": settings.url})
    else:
        for mount in settings.mounts:
            print_text(f"{mount.name}: {settings.url}/v2/models/{mount.name}")
        print_text("Ctrl-C stops it")
    sys.stdout.flush()  # the server runs on for long

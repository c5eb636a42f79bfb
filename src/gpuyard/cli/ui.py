"""`gpuyard ui`."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading

from gpuyard.cli.access_options import add_access, print_warnings, read_access
from gpuyard.cli.home_option import add_home, home_of
from gpuyard.cli.options import add_json, add_option
from gpuyard.errors import EXIT_OK, ExternalError
from gpuyard.home import known_homes
from gpuyard.report.terminal import print_json, print_text

PORT = 8787


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n  gpuyard ui\n  gpuyard ui --allow-actions\n"
        "  gpuyard ui --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem\n"
        "with --allow-actions, and on other addresses than loopback, the URL contains a token"
    )
    add_home(parser)
    add_option(
        parser, "--host HOST", "address to listen on (default 127.0.0.1)", default="127.0.0.1"
    )
    add_option(
        parser, "--port PORT", "port (default 8787, or a free one if that is in use)", type=int
    )
    add_option(
        parser,
        "--allow-actions",
        "allow starting, stopping and resuming runs, and promoting models",
    )
    add_access(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serves the page until it is interrupted."""
    from gpuyard.web.server import WebServer, open_site

    home = home_of(arguments)
    access = read_access(arguments)

    def opened(port: int) -> WebServer:
        return open_site(
            home,
            host=arguments.host,
            port=port,
            acts=arguments.allow_actions,
            access=access,
            others=known_homes,
        )

    try:
        site = opened(PORT if arguments.port is None else arguments.port)
    except ExternalError:
        if arguments.port is not None:
            raise
        site = opened(0)
    print_warnings(arguments.host, access)
    may = "actions allowed" if arguments.allow_actions else "read-only"
    if arguments.json:
        print_json(
            {"url": site.url, "home": str(home.path), "allow_actions": arguments.allow_actions}
        )
    else:
        print_text(f"gpuyard ui: {site.url}\n{home.path}; {may}; Ctrl-C to stop")
    stopped = threading.Thread(target=site.shutdown)
    signal.signal(signal.SIGTERM, lambda *_: stopped.start())
    with contextlib.suppress(KeyboardInterrupt):
        site.serve_forever()
    site.server_close()
    return EXIT_OK

"""`gpuyard catalog refresh --project ID`."""

from __future__ import annotations

import argparse
import datetime

from gpuyard.cli.home_option import home_of
from gpuyard.errors import EXIT_OK, InputError
from gpuyard.report.terminal import print_json, print_text


def refresh(arguments: argparse.Namespace) -> int:
    """Read prices, zones and quotas from Google's APIs and keep them in the state directory."""
    from gpuyard.app.apply import connect  # imports the API client
    from gpuyard.app.catalog_refresh import refresh_catalog
    from gpuyard.cli.apply import print_to_stderr
    from gpuyard.provision.apply.google import GoogleClient
    from gpuyard.provision.apply.step_client import RealClock

    if not arguments.project:
        fix = "add --project ID: the project whose quotas and zones count"
        raise InputError.one("--project", "is missing", fix)
    result = refresh_catalog(
        GoogleClient(transport=connect(), clock=RealClock()),
        arguments.project,
        home_of(arguments),
        datetime.datetime.now(datetime.UTC).date(),
        print_to_stderr,
    )
    if arguments.json:
        print_json(result)
        return EXIT_OK
    print_text(
        f"{result.prices_count:,} prices of Google Cloud in {result.regions_count} regions, "
        f"{result.changed_count:,} of them new or changed; {result.quotas_count} quotas"
    )
    if result.unpriced:
        print_text(f"no price in the API, earlier ones stay: {', '.join(result.unpriced)}")
    print_text(f"wrote {result.file}: plans of workloads in this folder use it")
    return EXIT_OK

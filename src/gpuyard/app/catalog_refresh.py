"""`gpuyard catalog refresh`: today's prices, zones and quotas of Google, in the state folder."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyard.catalog.google_layer import GoogleAnswers, google_layer, unpriced_series
from gpuyard.catalog.google_skus import COMPUTE_ENGINE, Tree
from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.document.encode import dump_json, plain
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.home import Home, write_atomic
from gpuyard.provision.apply.google import GoogleClient, pages
from gpuyard.provision.apply.step_client import ApiError

BILLING = "https://cloudbilling.googleapis.com/"
COMPUTE = "https://compute.googleapis.com/"
# Machine types of the catalog; the API has hundreds more per zone.
MACHINE_TYPES = "name eq (a2|a3|a4|a4x|g2|g4|ct5lp|ct5p|ct6e|tpu7x|c3|n2|h3|h4d)-.*"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    """What a refresh wrote."""

    file: Path
    date: datetime.date
    prices_count: int
    regions_count: int
    quotas_count: int
    changed_count: int  # prices that differ from the ones known before
    unpriced: tuple[str, ...]  # series without SKUs: their built-in prices stay


def refresh_catalog(
    client: GoogleClient,
    project: str,
    home: Home,
    today: datetime.date,
    on_progress: Callable[[str], None] = lambda _: None,
) -> RefreshResult:
    """Read the APIs with the user's credentials and write the layer that plans then use."""
    catalog = load_catalog()
    answers = _answers(client, project, on_progress)
    layer = google_layer(answers, catalog, today)
    if not layer.prices:
        fix = "enable the Cloud Billing API and the Compute Engine API in the project"
        raise ExternalError(project, "the APIs returned no machine with a price", fix)
    write_atomic(home.refreshed_catalog, _as_file(layer))
    load_catalog([home.refreshed_catalog])  # what was written can be read
    before = {price.name: price.on_demand_usd_per_hour for price in catalog.prices}
    return RefreshResult(
        file=home.refreshed_catalog,
        date=today,
        prices_count=len(layer.prices),
        regions_count=len({price.region for price in layer.prices}),
        quotas_count=len(layer.quotas),
        changed_count=sum(
            before.get(price.name) != price.on_demand_usd_per_hour for price in layer.prices
        ),
        unpriced=unpriced_series(layer, catalog),
    )


def _answers(
    client: GoogleClient, project: str, on_progress: Callable[[str], None]
) -> GoogleAnswers:
    def rows(
        what: str, root: str, path: str, query: tuple[tuple[str, str], ...] = ()
    ) -> tuple[Tree, ...]:
        on_progress(f"reading {what}")
        try:
            return tuple(pages(client, root, path, query))
        except ApiError as error:
            raise ExternalError(f"{root}{path}", str(error), error.fix) from None

    compute = f"compute/v1/projects/{project}"
    aggregated = f"{compute}/aggregated"
    everything = (("maxResults", "500"),)
    return GoogleAnswers(
        skus=rows(
            "prices",
            BILLING,
            f"v1/{COMPUTE_ENGINE}/skus",
            (("currencyCode", "USD"), ("pageSize", "5000")),
        ),
        machine_types=rows(
            "machine types",
            COMPUTE,
            f"{aggregated}/machineTypes",
            (*everything, ("filter", MACHINE_TYPES)),
        ),
        accelerator_types=rows(
            "accelerators", COMPUTE, f"{aggregated}/acceleratorTypes", everything
        ),
        regions=rows("quotas", COMPUTE, f"{compute}/regions", everything),
    )


def _as_file(layer: Catalog) -> str:
    """The layer as a catalog file: rows by name."""
    tables: dict[str, dict[str, Plain]] = {}
    for kind in ("sources", "prices", "quotas"):
        for row in getattr(layer, kind):
            fields = plain(row)
            assert isinstance(fields, dict)
            tables.setdefault(kind, {})[str(fields.pop("name"))] = fields
    return dump_json(tables)

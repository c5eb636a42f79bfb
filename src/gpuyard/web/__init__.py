"""The page: plans, data, runs, models, services and the catalog, live in a browser, from this machine alone."""

from gpuyard.web.server import Site, open_site

__all__ = ["Site", "open_site"]

"""Times of verifying and drawing a fabric: `python bench/verify.py [servers]`, single failures included.

The shape is the largest rail-optimised one of Juniper's validated design (AI data centre, "Scaling", table 18):
4,096 servers of 8 GPUs, 512 leaves, 64 chassis spines; then the same servers under three tiers.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.fabric.demand import Demand, Shape
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.imports.built import as_built
from gpuyard.fabric.imports.compare import compare
from gpuyard.fabric.imports.read import CablingReport, read_reports
from gpuyard.fabric.render.cabling.cabling_csv import cabling_csv
from gpuyard.fabric.verify.verify import verify
from gpuyard.report.fabric_page import fabric_page
from gpuyard.report.fabric_svg import fabric_svg

T = TypeVar("T")
SERVERS = 4096


def timed(what: str, make: Callable[[], T]) -> T:
    """The result, after printing its time and the most memory that the process had."""
    start_s = time.perf_counter()
    result = make()
    took_s = time.perf_counter() - start_s
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{what:<34} {took_s:8.3f} s   {peak_kib / 1024:8.0f} MiB at most so far")
    return result


def measure(shape: Shape, servers: int, catalog: Catalog) -> None:
    """Prints one line a step."""
    demand = Demand(server_count=servers, nic_bits_per_s=400e9, leaf="qfx5240-64od", shape=shape)
    fabric = timed(f"design, {shape}", lambda: design(demand, catalog))
    if not isinstance(fabric, Fabric):
        sys.exit(str(fabric))
    whole, size = fabric, fabric.size
    print(f"  {size.gpus:,} GPUs, {size.leaves} leaves, {size.spines} spines, {size.cores} cores")
    told = timed("verify", lambda: verify(whole, catalog))
    print(f"  {len(told.checks)} checks, {len(told.errors)} errors, {len(told.warnings)} warnings")
    timed("draw", lambda: fabric_svg(whole))
    page = timed("page", lambda: fabric_page(whole, told))
    print(f"  {len(page) / 1e6:.1f} MB")
    reports = [CablingReport(file="cabling.csv", text=cabling_csv(whole))]
    built = timed(
        "import a table of all cables", lambda: as_built(read_reports(reports), whole.topology)
    )
    timed("compare with the design", lambda: compare(whole.topology, built))


def main() -> None:
    """Measures two tiers, then three."""
    servers = int(sys.argv[1]) if len(sys.argv) > 1 else SERVERS
    catalog = load_catalog()
    measure("two-tier", servers, catalog)
    measure("three-tier", servers, catalog)


if __name__ == "__main__":
    main()

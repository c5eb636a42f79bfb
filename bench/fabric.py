"""Times and memory of designing, saving and reading a fabric: `python bench/fabric.py [servers]`.

The shape is the largest rail-optimised one of Juniper's validated design (AI data centre, "Scaling", table 18):
4,096 servers of 8 GPUs, 512 leaves, 64 chassis spines.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.bill_of_materials import materials
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.labels import cable_labels
from gpuyard.fabric.saved import from_json, to_json

T = TypeVar("T")
SERVERS = 4096
REPEATS = 3


def measured(what: str, make: Callable[[], T]) -> T:
    """The result, after printing the best time of a few and the most memory that the process had."""
    best_s = float("inf")
    result = make()
    for _ in range(REPEATS):
        gc.collect()
        start_s = time.perf_counter()
        result = make()
        best_s = min(best_s, time.perf_counter() - start_s)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{what:<34} {best_s:8.3f} s   {peak_kib / 1024:8.0f} MiB at most so far")
    return result


def main() -> None:
    """Prints one line a step."""
    servers = int(sys.argv[1]) if len(sys.argv) > 1 else SERVERS
    catalog = load_catalog()
    demand = Demand(server_count=servers, nic_bits_per_s=400e9, leaf="qfx5240", machine="hgx-h100")
    found = measured(f"design {servers:,} servers", lambda: design(demand, catalog))
    if not isinstance(found, Fabric):
        sys.exit(str(found))
    size, fabric = found.size, found
    print(f"  {size.gpus:,} GPUs, {size.leaves} leaves, {size.spines} spines, {size.cores} cores")
    measured("bill of materials", lambda: materials(fabric, catalog))
    measured("labels of every cable", lambda: sum(1 for _ in cable_labels(fabric)))
    text = measured("save as JSON", lambda: to_json(fabric))
    print(f"  {len(text) / 1e6:.1f} MB")
    measured("read back", lambda: from_json(text))


if __name__ == "__main__":
    main()

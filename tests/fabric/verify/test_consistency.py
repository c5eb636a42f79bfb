"""Names with wrong counts, and watchdog times out of range."""

from __future__ import annotations

import pytest

from gpuyard.fabric.lossless.balancing import balancing_mode
from gpuyard.fabric.lossless.watchdog import WatchdogConfig, watchdog_problems
from gpuyard.fabric.verify.consistency import check_name, named_count


def test_name_with_wrong_count_is_reported() -> None:
    name, servers = (
        "AI Cluster 256 DGX-A100 Storage Fabric",
        4 * 32,
    )  # Juniper/terraform-apstra-examples
    assert named_count(name) == (256, "servers")
    assert [finding.what for finding in check_name(name, servers, servers * 8)] == [
        "says 256 servers, and there are 128"
    ]
    assert not list(check_name(name, 256, 2048))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("AI_Cluster_64_DGX-A100", (64, "servers")),
        ("1,024 GPUs", (1024, "gpus")),
        ("32k-gpus", (32768, "gpus")),
        ("64 x H100 servers", None),
        ("fabric", None),
        ("h100", None),
        ("rev2-nodes", None),
        ("16 nodes", (16, "servers")),
    ],
)
def test_count_is_parsed_from_a_name(name: str, count: tuple[int, str] | None) -> None:
    assert named_count(name) == count


def test_published_watchdog_example_is_invalid() -> None:
    # SONiC's HLD of PFC counters: poll 400 ms, detect 100 ms
    assert list(
        watchdog_problems(
            WatchdogConfig(poll_s=0.4, detect_s=0.1, restore_s=0.4, action="drop", source="HLD")
        )
    )
    assert not list(
        watchdog_problems(
            WatchdogConfig(poll_s=0.1, detect_s=0.2, restore_s=0.2, action="drop", source="HLD")
        )
    )


def test_global_load_balancing_has_the_published_limits() -> None:
    limits = balancing_mode("global")
    assert (limits.clos_stages, limits.links_per_pair, limits.max_leaves) == (3, 1, 64)
    assert (limits.overlay, limits.same_everywhere) == (False, True)

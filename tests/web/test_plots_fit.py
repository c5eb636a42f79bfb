"""Report pages in Chromium: at no width does a plot overflow its box or the page."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuyard.cli.main import main

from .chromium import Browser

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
WIDTHS = (390, 800, 1280, 1600, 1920)
OVERFLOWING = """
[...document.querySelectorAll(".drawing")]
  .filter(box => box.scrollWidth > box.clientWidth + 1)
  .map(box => `${box.parentElement.innerText.slice(0, 40)}: ${box.scrollWidth} > ${box.clientWidth}`)
"""


def _pages(folder: Path) -> list[Path]:
    """A page of a simulation and one of a plan."""
    simulation, plan = folder / "simulation.html", folder / "plan.html"
    traffic = ["traffic", str(EXAMPLES / "permutation.cm"), "--topology", "fat-tree"]
    assert (
        main(
            ["simulate", *traffic, "--hosts", "16", "--engine", "packet", "--html", str(simulation)]
        )
        == 0
    )
    workload = EXAMPLES / "finetune-lora-8b" / "workload.yaml"
    assert main(["plan", str(workload), "--html", str(plan)]) == 0
    return [simulation, plan]


def test_no_plot_overflows_its_box(tmp_path: Path) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1", "no Chromium"
        pytest.skip("no Chromium")
    pages = _pages(tmp_path)
    with Browser(program, tmp_path / "profile") as browser:
        for width in WIDTHS:
            browser.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=width < 500,
            )
            for file in pages:
                browser.open(file.as_uri())
                assert browser.value("document.querySelectorAll('.drawing').length") >= 2
                overflowing = browser.value(f"JSON.stringify({OVERFLOWING.strip()})")
                assert overflowing == "[]", (file.name, width, overflowing)
                page_width = browser.value("document.documentElement.scrollWidth")
                assert page_width <= width, (file.name, width, page_width)

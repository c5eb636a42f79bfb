"""The page in a real browser: live, on a phone, in the dark, by keyboard, without a word on the console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.home import Home
from gpuyard.jobs import EngineSpec, Ledger
from gpuyard.web import Site

from .chromium import Browser
from .test_server import PAGES

PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """The browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1", "no Chromium"
        pytest.skip("no Chromium")
    with Browser(program, tmp_path / "profile") as found:
        yield found


@pytest.mark.parametrize("site", [True], indirect=True)
def test_the_page_in_a_browser(site: Site, home: Home, browser: Browser) -> None:
    root = site.url.rstrip("/")
    # Live: a run that begins after the page was painted appears on it.
    browser.open(f"{root}/runs")
    browser.until("document.getElementById('state').textContent === 'live'")
    ledger = Ledger(home=home, now=lambda: 1.0)  # older than the run that other tests look at
    run = ledger.begin(name="seen", workload="", engine=EngineSpec(name="local"), stages=("train",))
    browser.until(f"document.querySelector('#runs a[href=\"/runs/{run.id}\"]') !== null")
    ledger.end(run.id, "cancelled")
    browser.until("document.getElementById('runs').textContent.includes('cancelled')")
    # Keyboard: a number goes to a page, Tab to the link past the navigation, a form keeps its focus.
    browser.press("2")
    browser.until("location.pathname === '/plans' && document.readyState === 'complete'")
    browser.press("Tab")
    assert browser.value("document.activeElement.className") == "skip"
    # A phone: tables and drawings scroll, the page does not.
    browser.call("Emulation.setDeviceMetricsOverride", **PHONE)
    for path in PAGES:
        browser.open(root + path)
        assert browser.value("innerWidth") == PHONE["width"], path
        assert browser.value("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert browser.value("document.title") != "harm", path
    # Dark when the system is.
    for scheme, is_dark in (("light", False), ("dark", True)):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        colour = browser.value("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in colour[4:-1].split(",")[:3]) < 300) == is_dark, colour
    assert browser.said == []


@pytest.mark.parametrize("site", [True], indirect=True)
def test_a_form_promotes_and_nothing_moves_under_the_fingers(site: Site, browser: Browser) -> None:
    browser.open(f"{site.url}models/wine")
    browser.until("document.getElementById('state').textContent === 'live'")
    browser.value("document.querySelector('select[name=version]').value = '1'")
    browser.value("document.querySelector('select[name=alias]').value = 'challenger'")
    browser.value("document.querySelector('#actions button').focus()")
    browser.press("Enter")
    browser.until("document.getElementById('versions')?.textContent.includes('challenger')")
    assert browser.said == []

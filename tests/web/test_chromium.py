"""The UI in Chromium: live updates, keyboard, phone layout, dark mode, no console errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec
from gpuyard.web.server import WebServer

from .chromium import Browser
from .test_server import PAGES

PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


pytestmark = pytest.mark.slow


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if program is None:
        assert os.environ.get("GPUYARD_REQUIRE_ALL") != "1", "no Chromium"
        pytest.skip("no Chromium")
    with Browser(program, tmp_path / "profile") as opened:
        yield opened


def sign_in(browser: Browser, site: WebServer) -> str:
    """Open the printed address, whose token becomes a cookie, and return the address without it."""
    root = site.url.partition("?")[0].rstrip("/")
    browser.call("Page.navigate", url=site.url)
    browser.until(f'location.href === "{root}/" && document.readyState === "complete"')
    return root


@pytest.mark.parametrize("site", [True], indirect=True)
def test_pages_work_in_a_browser_without_console_errors(
    site: WebServer, home: Home, browser: Browser
) -> None:
    root = sign_in(browser, site)
    # Live: a run that starts after the page was loaded appears on it.
    browser.open(f"{root}/runs")
    browser.until("document.getElementById('state').textContent === 'live'")
    ledger = Ledger(home=home, now=lambda: 1.0)  # older than the run that other tests use
    run = ledger.begin(name="seen", workload="", engine=EngineSpec(name="local"), stages=("train",))
    browser.until(f"document.querySelector('#runs a[href=\"/runs/{run.id}\"]') !== null")
    ledger.end(run.id, "cancelled")
    browser.until("document.getElementById('runs').textContent.includes('cancelled')")
    # Keyboard: a digit opens a page, Tab goes to the skip link.
    browser.press("2")
    browser.until("location.pathname === '/plans' && document.readyState === 'complete'")
    browser.press("Tab")
    assert browser.value("document.activeElement.className") == "skip"
    # Phone: tables and drawings scroll, the page does not.
    browser.call("Emulation.setDeviceMetricsOverride", **PHONE)
    for path in PAGES:
        browser.open(root + path)
        assert browser.value("innerWidth") == PHONE["width"], path
        assert browser.value("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert browser.value("document.title") != "harm", path
    # Dark mode follows the system.
    for scheme, is_dark in (("light", False), ("dark", True)):
        browser.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        colour = browser.value("getComputedStyle(document.body).backgroundColor")
        assert (sum(int(part) for part in colour[4:-1].split(",")[:3]) < 300) == is_dark, colour
    assert browser.errors == []


@pytest.mark.parametrize("site", [True], indirect=True)
def test_form_promotes_a_version(site: WebServer, browser: Browser) -> None:
    browser.open(f"{sign_in(browser, site)}/models/wine")
    browser.until("document.getElementById('state').textContent === 'live'")
    browser.value("document.querySelector('select[name=version]').value = '1'")
    browser.value("document.querySelector('select[name=alias]').value = 'challenger'")
    browser.value("document.querySelector('#actions button').focus()")
    browser.press("Enter")
    browser.until("document.getElementById('versions')?.textContent.includes('challenger')")
    assert browser.errors == []

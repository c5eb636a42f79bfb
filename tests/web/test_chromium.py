"""The UI in Chromium: live updates, keyboard, phone layout, dark mode, no console errors."""

from __future__ import annotations

import pytest

from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec
from gpuyard.web.server import WebServer

from .chromium import Browser
from .test_server import PAGES

PHONE = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}


pytestmark = pytest.mark.slow


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
    browser.press("3")
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


def test_planner_plans_while_typing_and_leads_to_a_port(site: WebServer, browser: Browser) -> None:
    root = site.url.rstrip("/")
    browser.open(f"{root}/planner")
    # Form → file → plan: one line of the file changes, and the plan with it.
    browser.until("document.querySelector('#answer svg') !== null")
    _type(browser, "[name=deadline]", "2d")
    browser.until("document.getElementById('text').value.includes('deadline: 2d')")
    browser.until("document.getElementById('state').textContent === ''")
    # A mistake is named with its line while the file is edited.
    _type(browser, "#text", "task: pretraining\\nmodel: lama-3-70b\\n")
    browser.until("document.querySelector('#problems [data-line=\"2\"]') !== null")
    browser.value("document.querySelector('#problems [data-line=\"2\"]').click()")
    assert browser.value("document.activeElement.id") == "text"
    # What if: a slider plans again; compared with the plan before.
    browser.open(f"{root}/planner?example=finetune-lora-8b")
    browser.until("document.querySelector('[name=changed][value=baseline]') !== null")
    browser.value("document.querySelector('[name=changed][value=baseline]').click()")
    browser.until("document.querySelector('[name=baseline]').value !== ''")
    _type(browser, "[name=load-factor]", "1")
    browser.until("document.getElementById('answer').textContent.includes('Compared')")
    # Tables sort; plots and tables can be saved.
    assert browser.value("document.querySelectorAll('[data-save=PNG]').length") > 0
    browser.open(f"{root}/catalog/chips")
    browser.value(
        "[...document.querySelectorAll('button.sort')].find(b => b.textContent === 'memory').click()"
    )
    cells = browser.value(
        "[...document.querySelectorAll('tbody tr')].map(r => r.cells[6].textContent)"
    )
    assert cells[0] != cells[-1]
    _type(browser, "[data-filter]", "h100")
    assert "h100" in browser.value(
        "[...document.querySelectorAll('tbody tr:not([hidden])')][0].textContent"
    )
    # Fabric → rack → device → port → the device at its other end.
    browser.open(f"{root}/plans/onprem/fabric")
    browser.value("document.querySelector('#devices a').click()")
    browser.until("document.querySelector('#ports tbody tr') !== null")
    peer = browser.value("document.querySelector('#ports a').textContent")
    browser.value("document.querySelector('#ports a').click()")
    browser.until(f"document.querySelector('h1')?.textContent === {peer!r}")
    assert browser.errors == []


def _type(browser: Browser, selector: str, text: str) -> None:
    """Set a field as typing does."""
    browser.value(
        f"{{const field = document.querySelector({selector!r}); field.focus(); field.value = '{text}';"
        " field.dispatchEvent(new Event('input', {bubbles: true}));}"
    )

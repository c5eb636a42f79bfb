"""Every page of the UI under axe-core: WCAG 2.1 A and AA, light and dark, wide and on a phone."""

from __future__ import annotations

import importlib.resources
import json

import pytest

from gpuyard.web.server import WebServer

from .chromium import Browser
from .test_chromium import PHONE
from .test_server import PAGES

pytestmark = pytest.mark.slow

WIDE = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice")
RUN = f"""
axe.run(document, {{runOnly: {json.dumps(RULES)}, resultTypes: ["violations"]}}).then((result) => {{
  window.violations = JSON.stringify(result.violations.map((one) =>
    [one.id, one.nodes.length, one.nodes[0].html.slice(0, 160), one.nodes[0].failureSummary]));
}});
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_pages_have_no_violation(
    site: WebServer, browser: Browser, scheme: str, size: dict[str, object]
) -> None:
    axe = (importlib.resources.files("axe_core_python") / "axe.min.js").read_text("utf-8")
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    violations_by_page = {}
    for path in PAGES:
        browser.open(site.url.rstrip("/") + path)
        browser.value(axe)
        browser.value(RUN)
        violations = json.loads(browser.until("window.violations"))
        if violations:
            violations_by_page[path] = violations
    assert not violations_by_page, json.dumps(violations_by_page, indent=1)

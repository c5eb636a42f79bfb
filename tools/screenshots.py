"""Screenshots of the UI's pages for the documentation: three widths, light and dark.

    gpuyard up examples/quickstart/workload.yaml --home build/screenshots
    gpuyard up examples/onprem-1024/workload.yaml --home build/screenshots
    python tools/screenshots.py build/screenshots

writes docs/images/ui/ and docs/guides/ui-pages.md. It needs Chromium.
"""

from __future__ import annotations

import base64
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from gpuyard.home import Home
from gpuyard.web.server import open_site

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "web"))
from chromium import Browser  # noqa: E402

IMAGES, DOC = ROOT / "docs" / "images" / "ui", ROOT / "docs" / "guides" / "ui-pages.md"
SIZES = ((390, 844), (1280, 800), (1920, 1080))
SCHEMES = ("light", "dark")
QUALITY = 55  # of WebP
PAGES = {
    "overview": ("/", "Overview"),
    "planner": ("/planner?example=pretrain-70b", "Planner"),
    "plan": ("/plans/onprem-1024", "A plan"),
    "fabric": ("/plans/onprem-1024/fabric", "A fabric"),
    "data": ("/data", "Prepared data"),
    "run": ("/runs/last", "A run"),
    "model": ("/models/quickstart", "A model"),
    "catalog": ("/catalog/chips", "The catalog"),
}
HEAD = """# Pages of the UI

What `gpuyard ui` shows after `gpuyard up` on `examples/quickstart` and `examples/onprem-1024`, at 390, 1280 and 1920
pixels, light and dark. `python tools/screenshots.py HOME` takes them again; [Web UI](ui.md) explains the pages.
"""


def take(home: Home) -> None:
    """Write the screenshots of every page."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "no Chromium"
    IMAGES.mkdir(parents=True, exist_ok=True)
    site = open_site(home, port=0)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    root = site.url.rstrip("/")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        Browser(program, Path(folder)) as browser,
    ):
        for name, (path, _) in PAGES.items():
            for width, height in SIZES:
                metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
                browser.call("Emulation.setDeviceMetricsOverride", mobile=width < 600, **metrics)
                browser.open(root + path)
                if name == "data":  # the first data set, whose name has a digest
                    browser.open(browser.value("document.querySelector('main a').href"))
                if name == "planner":
                    browser.until("document.querySelector('#answer svg') !== null")
                for scheme in SCHEMES:
                    feature = {"name": "prefers-color-scheme", "value": scheme}
                    browser.call("Emulation.setEmulatedMedia", features=[feature])
                    data = browser.call("Page.captureScreenshot", format="webp", quality=QUALITY)[
                        "data"
                    ]
                    image = IMAGES / f"{name}-{width}-{scheme}.webp"
                    image.write_bytes(base64.b64decode(data))
    site.shutdown()


def document() -> str:
    """Return the page that shows them."""
    parts = [HEAD]
    for name, (path, title) in PAGES.items():
        parts.append(f"\n## {title}\n\n`{path}`\n")
        for width, _ in SIZES:
            images = " ".join(
                f"![{title}, {width} pixels, {scheme}](../images/ui/{name}-{width}-{scheme}.webp)"
                f"{{ width={min(360, width // 3)} }}"
                for scheme in SCHEMES
            )
            parts.append(f"\n{images}\n")
    return "".join(parts)


if __name__ == "__main__":
    take(Home(path=Path(sys.argv[1]).resolve()))
    DOC.write_text(document(), encoding="utf-8")

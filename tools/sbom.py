"""Write the installed packages as a CycloneDX 1.6 bill of materials: `python tools/sbom.py FILE`.

The packages, their licences and files' origins are those of `pip inspect`. The result depends on
the environment only: it has no time and no random serial number.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from gpuyard.document.frozen_json import Plain


def component(package: dict[str, Plain]) -> dict[str, Plain]:
    """Return the CycloneDX component of a package in the report of `pip inspect`."""
    meta = package["metadata"]
    assert isinstance(meta, dict)
    name, version = str(meta["name"]), str(meta["version"])
    url = f"pkg:pypi/{quote(name.lower().replace('_', '-'), safe='')}@{quote(version, safe='')}"
    row: dict[str, Plain] = {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "purl": url,
    }
    licence = str(meta.get("license_expression") or meta.get("license") or "").strip()
    if "license_expression" in meta:
        row["licenses"] = [{"expression": licence}]
    elif licence and "\n" not in licence:  # older metadata may hold the whole text
        row["licenses"] = [{"license": {"name": licence}}]
    return row


def bill_of_materials(inspected: dict[str, Plain]) -> dict[str, Plain]:
    """Return the bill of materials of a report of `pip inspect`."""
    packages = inspected["installed"]
    assert isinstance(packages, list)
    components = [component(package) for package in packages if isinstance(package, dict)]
    own = [row for row in components if row["name"] == "gpuyard"]
    others = [row for row in components if row["name"] != "gpuyard"]
    metadata: dict[str, Plain] = {"component": own[0]} if own else {}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": sorted(others, key=lambda row: str(row["purl"])),
    }


def main() -> None:
    """Write the file."""
    command = [sys.executable, "-m", "pip", "inspect", "--local"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bill = bill_of_materials(json.loads(done.stdout))
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(bill, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Write the tables of docs/concepts/provisioning-validation.md from the rules and schemas.

python tools/provision_reference.py            write the page
python tools/provision_reference.py --check    fail if the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpuyard.provision.invariants.fabric_requirements import REQUIREMENTS
from gpuyard.provision.invariants.rules import INVARIANTS
from gpuyard.provision.schemas.library import (
    GOOGLE_APIS,
    KUBERNETES_LIBRARIES,
    library,
    provider_origin,
    provider_resources,
    toolkit_modules,
)

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "provisioning-validation.md"


def descriptions() -> str:
    """Return the table of shipped API descriptions."""
    lines = ["| description | revision | date | content |", "|---|---|---|---|"]
    for name in (*GOOGLE_APIS, *KUBERNETES_LIBRARIES):
        schemas = library(name)
        content = (
            f"{len(schemas.kinds)} kinds" if schemas.kinds else f"{len(schemas.methods)} methods"
        )
        for origin in schemas.origins:
            lines.append(f"| {origin.title} | {origin.revision} | {origin.date} | {content} |")
    lines.append(
        f"| Cluster Toolkit modules | 104708037 | 2026-06-25 | {len(toolkit_modules())} modules |"
    )
    provider = provider_origin()
    count = len(provider_resources())
    lines.append(
        f"| {provider.title} | {provider.revision} | {provider.date} | {count} resources |"
    )
    return "\n".join(lines)


def rules() -> str:
    """Return the table of invariants."""
    lines = ["| rule | applies to | condition | source |", "|---|---|---|---|"]
    lines += [
        f"| `{rule.name}` | {rule.applies_to} | {rule.holds} | {rule.source} |"
        for rule in INVARIANTS
    ]
    return "\n".join(lines)


def needs() -> str:
    """Return the table of pod requirements per fabric."""
    labels = {
        "tcpxo": "GPUDirect-TCPXO (A3 Mega)",
        "tcpx": "GPUDirect-TCPX (A3 High)",
        "roce": "GPUDirect RDMA (A3 Ultra, A4, A4X)",
    }
    lines = ["| fabric | requirement | if missing |", "|---|---|---|"]
    for technology, rows in REQUIREMENTS.items():
        for requirement in rows:
            lines.append(
                f"| {labels[technology]} | {requirement.name} | {'no' if requirement.is_hard else 'unsure'} |"
            )
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with current tables."""
    for name, table in (("descriptions", descriptions()), ("rules", rules()), ("needs", needs())):
        start, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{start}<!-- {name} -->\n{table}\n{end}{after}"
    return text


def main() -> int:
    """Write or check the page."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in sys.argv:
        if new != old:
            print(f"{PAGE.name} is out of date: run python tools/provision_reference.py")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

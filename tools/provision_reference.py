"""Writes the tables of docs/concepts/provisioning-validation.md from the rules and the shipped descriptions.

python tools/provision_reference.py            write them
python tools/provision_reference.py --check    fail if they are not what the code says
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpuyard.provision.invariants import INVARIANTS
from gpuyard.provision.invariants.needs import NEEDS
from gpuyard.provision.schemas import GOOGLE_APIS, KUBERNETES_LIBRARIES, library, toolkit_modules

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "provisioning-validation.md"


def descriptions() -> str:
    """What is shipped, with its revision."""
    lines = ["| description | revision | date | holds |", "|---|---|---|---|"]
    for name in (*GOOGLE_APIS, *KUBERNETES_LIBRARIES):
        books = library(name)
        holds = f"{len(books.kinds)} kinds" if books.kinds else f"{len(books.methods)} methods"
        for origin in books.origins:
            lines.append(f"| {origin.title} | {origin.revision} | {origin.date} | {holds} |")
    lines.append(f"| Cluster Toolkit modules | 104708037 | 2026-06-25 | {len(toolkit_modules())} modules |")
    return "\n".join(lines)


def rules() -> str:
    """The rules."""
    lines = ["| rule | applies to | what must hold | source |", "|---|---|---|---|"]
    lines += [f"| `{rule.name}` | {rule.applies_to} | {rule.holds} | {rule.source} |" for rule in INVARIANTS]
    return "\n".join(lines)


def needs() -> str:
    """What a pod needs for each fabric."""
    labels = {
        "tcpxo": "GPUDirect-TCPXO (A3 Mega)",
        "tcpx": "GPUDirect-TCPX (A3 High)",
        "roce": "GPUDirect RDMA (A3 Ultra, A4, A4X)",
    }
    lines = ["| fabric | needs | without it |", "|---|---|---|"]
    for technology, rows in NEEDS.items():
        for need in rows:
            lines.append(f"| {labels[technology]} | {need.name} | {'no' if need.is_hard else 'unsure'} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its tables renewed."""
    for name, table in (("descriptions", descriptions()), ("rules", rules()), ("needs", needs())):
        start, _, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{start}<!-- {name} -->\n{table}\n{end}{after}"
    return text


def main() -> int:
    """Writes or checks the page."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if "--check" in sys.argv:
        if new != old:
            print(f"{PAGE.name} is not what the code says: run `python tools/provision_reference.py`")
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Audit the installed packages: `python tools/audit.py PIP_AUDIT`.

pip-audit skips packages that its source does not know and still succeeds; an audit that looked at
nothing must not look like a clean one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

from gpuyard.document.frozen_json import Plain


def verdict(report: dict[str, Plain]) -> tuple[int, list[str]]:
    """Return the exit code and the lines to print for pip-audit's JSON report."""
    rows = report.get("dependencies")
    packages = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    skipped = [row for row in packages if "skip_reason" in row and row.get("name") != "gpuyard"]
    audited = [row for row in packages if "skip_reason" not in row]
    lines = []
    for row in audited:
        found = row.get("vulns")
        for item in found if isinstance(found, list) else []:
            if isinstance(item, dict):
                fixed = item.get("fix_versions")
                versions = ", ".join(map(str, fixed)) if isinstance(fixed, list) else ""
                fix = f"fixed in {versions}" if versions else "no fixed version"
                lines.append(f"{row['name']} {row.get('version')}: {item.get('id')} ({fix})")
    if lines:
        return 1, lines
    if not audited:
        what = f"no verdict: the index has no vulnerability data for any of {len(skipped)} packages"
        return 2, [what, "run it where https://pypi.org is reachable"]
    lines = [f"{len(audited)} packages audited, no known vulnerability"]
    if skipped:
        names = ", ".join(str(row["name"]) for row in skipped)
        lines.append(f"not audited, no data: {names}")
    return 0, lines


def main() -> int:
    """Run pip-audit and print its verdict."""
    frozen = subprocess.run(
        [sys.executable, "-m", "pip", "freeze", "--exclude-editable"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(frozen.stdout)
        file.flush()
        options = ["--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off"]
        command = [sys.argv[1], *options, "--requirement", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        sys.stderr.write(f"no verdict: pip-audit failed\n{done.stderr}")
        return 2
    code, lines = verdict(report)
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`gpuyard fabric audit`: read the configurations of switches and prove them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.fabric.configs.audit import Audit, audit
from gpuyard.fabric.configs.read import ConfigText, format_of, read_configs
from gpuyard.fabric.configs.state import StateText, read_states
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.saved import MAX_BYTES
from gpuyard.fabric.verify.finding import Checked, Verification, merged

SKIPPED = frozenset({"servers", "twin"})  # folders of `fabric render` without configurations
SUFFIXES = frozenset(
    {"", ".conf", ".cfg", ".config", ".json", ".yaml", ".yml", ".txt", ".sh", ".set"}
)


def audit_files(
    paths: Sequence[Path], fabric: Fabric | None = None, states: Sequence[Path] = ()
) -> Audit:
    """Audit the configurations in files and folders, and what the devices report of their state."""
    devices = read_configs(_texts(paths))
    running = read_states(_states(states)) if states else ()
    return audit(devices, fabric, running)


def with_audit(verification: Verification, audited: Audit) -> Verification:
    """Return a verification with the findings of an audit, as one check."""
    count = sum(one.place_count for one in audited.findings if one.severity != "note")
    checked = Checked(
        name="configs",
        verifies="the switches are configured as designed, statement by statement",
        verdict="failed" if count else "passed",
        finding_count=count,
    )
    return replace(
        verification,
        checks=(*verification.checks, checked),
        findings=merged([*verification.findings, *audited.findings]),
    )


def _texts(paths: Sequence[Path]) -> Iterator[ConfigText]:
    for path in paths:
        if path.is_dir():
            texts = list(_folder_texts(path))
            if not texts:
                raise InputError.one(
                    str(path),
                    "has no configuration of Junos, SONiC, NVUE, EOS, NX-OS or FRR",
                    f"save them there, with names that end in {', '.join(sorted(SUFFIXES)[1:])}",
                )
            yield from texts
            continue
        text = read_text(path, MAX_BYTES)
        if format_of(text, path.name) is None:
            raise InputError.one(
                str(path),
                "is not a configuration of Junos, SONiC, NVUE, EOS, NX-OS or FRR",
                "give `show configuration`, config_db.json, startup.yaml or a running-config",
            )
        yield ConfigText(file=str(path), text=text)


def _folder_texts(folder: Path) -> Iterator[ConfigText]:
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if file.is_file() and file.suffix in SUFFIXES and not SKIPPED & set(inside.parts):
            text = read_text(file, MAX_BYTES)
            if format_of(text, file.name) is not None:
                yield ConfigText(file=str(file), text=text)


def _states(paths: Sequence[Path]) -> Iterator[StateText]:
    for path in paths:
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not files:
            raise InputError.one(
                str(path), "contains no state", "save `show … | json` or gNMI dumps as .json"
            )
        for file in files:
            yield StateText(file=str(file), text=read_text(file, MAX_BYTES))

"""Reading switch configurations, and finding seeded faults in them.

    python bench/fabric_configs.py [--mutations N] [--seed N] [FOLDER ...]

Without folders: the rendered configurations of one fabric per switch OS, against its design and
without it. Each folder holds configurations of one fabric, of any origin; they are audited without
a design, and reading prints what is not understood. A fault counts as found if the audit of the
changed configurations reports something that it does not report of the original ones.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Not `tests.fabric`: an installed package may also be called `tests`.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fabric"))

from configs.mutations import Mutation, mutate, rewritten, with_text

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Finding, InputError
from gpuyard.fabric.configs.audit import audit
from gpuyard.fabric.configs.device_config import DeviceConfig
from gpuyard.fabric.configs.intent import designed_configs
from gpuyard.fabric.configs.read import ConfigText, format_of, read_configs
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.fabric_files import render_switches

LEAVES = {"junos": "qfx5240-64od", "sonic": "sn5600", "cumulus": "sn5600", "eos": "7060x6-64pe",
          "nxos": "n9364e-sg2", "frr": "sn5600"}  # fmt: skip
REWRITES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Faults per kind, those that were found, and reports about unchanged meaning."""

    faults: Counter[str]
    hits: Counter[str]
    missed: tuple[Mutation, ...]
    false_count: int
    seconds: float


def rendered(os: str) -> tuple[Fabric, list[ConfigText]]:
    """Design a small two-tier fabric for an OS, and render its switches."""
    fabric = design(
        Demand(server_count=16, nic_bits_per_s=400e9, leaf=LEAVES[os], os=os, shape="two-tier"),
        load_catalog(),
    )
    assert isinstance(fabric, Fabric), fabric
    return fabric, [ConfigText(file=one.path, text=one.text) for one in render_switches(fabric)]


def folder_texts(folder: Path) -> list[ConfigText]:
    """Return the configurations in a folder."""
    texts = (
        ConfigText(file=str(path.relative_to(folder)), text=path.read_text(errors="replace"))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )
    return [text for text in texts if format_of(text.text, text.file)]


class Auditor:
    """Audits of one set of configurations; only devices whose text changed are read again."""

    def __init__(self, texts: Sequence[ConfigText], fabric: Fabric | None) -> None:
        self.texts, self.fabric = texts, fabric
        self._designed = None if fabric is None else tuple(designed_configs(fabric))
        self._devices: dict[tuple[ConfigText, ...], tuple[DeviceConfig, ...]] = {}

    def findings(self, texts: Sequence[ConfigText]) -> set[str]:
        """Return what an audit reports, without line numbers."""
        try:
            devices = [device for some in self._groups(texts) for device in self._read(some)]
            result = audit(devices, self.fabric, designed=self._designed).findings
        except InputError as error:
            result = tuple(problem.as_finding("unreadable") for problem in error.problems)
        return {_key(finding) for finding in result}

    def _groups(self, texts: Sequence[ConfigText]) -> Iterator[tuple[ConfigText, ...]]:
        if self.fabric is None and "/" not in texts[0].file:
            yield from ((text,) for text in texts)  # a file is a device
            return
        folders: dict[str, list[ConfigText]] = {}
        for text in texts:
            folders.setdefault(text.folder, []).append(text)
        yield from (tuple(some) for some in folders.values())

    def _read(self, texts: tuple[ConfigText, ...]) -> tuple[DeviceConfig, ...]:
        known = self._devices.get(texts)
        if known is None:
            known = read_configs(texts)
            if len(self._devices) < 64:
                self._devices[texts] = known
        return known


def _key(finding: Finding) -> str:
    where = finding.where.partition(" (")[0]
    return f"{finding.rule} {where} {finding.what} {finding.place_count}"


def measure(texts: Sequence[ConfigText], fabric: Fabric | None, count: int, seed: int) -> Result:
    """Audit every fault, and harmless rewrites."""
    start = time.perf_counter()
    random_ = random.Random(seed)
    auditor = Auditor(texts, fabric)
    before = auditor.findings(texts)
    faults: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    missed: list[Mutation] = []
    for _ in range(count):
        mutation = mutate(texts, random_)
        faults[mutation.kind] += 1
        if auditor.findings(list(with_text(texts, mutation))) - before:
            hits[mutation.kind] += 1
        else:
            missed.append(mutation)
    false = 0
    for _ in range(REWRITES):
        again = [rewritten(text, random_) for text in texts]
        false += len(auditor.findings(again) - before)
    return Result(
        faults=faults,
        hits=hits,
        missed=tuple(missed),
        false_count=false,
        seconds=time.perf_counter() - start,
    )


def main() -> int:
    """Print both tables; return 1 below 95 % or with a false report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--mutations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--os", choices=LEAVES, action="append")
    arguments = parser.parse_args()
    subjects: list[tuple[str, Fabric | None, list[ConfigText]]] = [
        (str(folder), None, folder_texts(folder)) for folder in arguments.folders
    ]
    if not subjects:
        for os in arguments.os or LEAVES:
            fabric, texts = rendered(os)
            subjects += [
                (f"{os}, against its design", fabric, texts),
                (f"{os}, alone", None, texts),
            ]
    print(
        "| configurations | devices | statements | known, not modelled | not understood | findings |"
    )
    print("|---|---|---|---|---|---|")
    for name, fabric, texts in subjects:
        devices = read_configs(texts)
        counts = (len(devices), sum(len(one.statements) for one in devices),
                  sum(len(one.other) for one in devices), sum(len(one.unread) for one in devices),
                  len(Auditor(texts, fabric).findings(texts)))  # fmt: skip
        print(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |", flush=True)
    print("\n| configurations | faults | found | | false reports | time per audit |")
    print("|---|---|---|---|---|---|")
    worst, false = 1.0, 0
    for name, fabric, texts in subjects:
        result = measure(texts, fabric, arguments.mutations, arguments.seed)
        total, found = result.faults.total(), result.hits.total()
        false += result.false_count
        if fabric is not None or arguments.folders:  # alone, some values have nothing to agree with
            worst = min(worst, found / total)
        per_audit_s = result.seconds / (total + REWRITES + 1)
        print(f"| {name} | {total} | {found} | {found / total:.1%} | {result.false_count} |"
              f" {per_audit_s * 1e3:.0f} ms |", flush=True)  # fmt: skip
        kinds = ", ".join(
            f"{kind} {result.hits[kind]}/{count}" for kind, count in sorted(result.faults.items())
        )
        print(f"  by kind: {kinds}", file=sys.stderr)
        for mutation in result.missed:
            print(f"  missed: {mutation.kind} {mutation.file}:{mutation.what}", file=sys.stderr)
    return 0 if worst >= 0.95 and not false else 1


if __name__ == "__main__":
    sys.exit(main())

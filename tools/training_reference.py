"""Writes the tables of docs/concepts/training-model.md from the data of the training model.

python tools/training_reference.py                    writes constants, ratios, chips and profiles
python tools/training_reference.py --errors FILE.md   and pastes the errors that bench/accuracy_training.py printed
python tools/training_reference.py --check            only says whether the page is as the data is
"""

from __future__ import annotations

import hashlib
import html
import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuyard.perf.calibration import PATH, read_calibration, scalar
from gpuyard.perf.chip_kernels import read_silicon
from gpuyard.perf.profiles import SoftwareProfile, read_profiles

PAGE = Path(__file__).parent.parent / "docs" / "concepts" / "training-model.md"
_MARKED = re.compile(r"(<!-- table: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table, the first as its head."""
    head, *body = rows
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *body))


def code(text: str) -> str:
    """A word as code; a bar inside would end the cell."""
    return (
        f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"
    )


def fitted(kind: str) -> str:
    """The constants or the ratios, with their standard errors and priors."""
    cells = tomllib.loads(PATH.read_text(encoding="utf-8"))[kind]
    rows = [["name", "value", "standard error", "unit", "prior", "meaning"]]
    for name, cell in cells.items():
        limit = f", below {cell['limit']:g}" if "limit" in cell else ""
        rows.append(
            [
                code(name),
                f"{cell['value']:.3g}",
                f"{cell['standard_error']:.2g}",
                cell["unit"],
                f"{cell['start']:g} ± {cell['spread']:g}{limit}",
                cell["meaning"],
            ]
        )
    return markdown(rows)


def chips() -> str:
    """What the kernel models know of each chip."""
    rows = [["chip", "catalog", "generation", "multiprocessors", "ratios", "published runs"]]
    for item in read_silicon():
        ratio = code(item.ratio) + (f" x {code(item.factor)}" if item.factor else "")
        known = "yes" if item.calibrated else "none; uses the ratio of the nearest architecture"
        rows.append(
            [item.name, code(item.chip), item.generation, str(item.sm_count or ""), ratio, known]
        )
    return markdown(rows)


def profiles() -> str:
    """The software profiles, what they do, and their scalars."""
    rows = [["profile", "family", "describes", "does", "fitted on", "scalar, dense", "scalar, MoE"]]
    for profile in read_profiles():
        rows.append(
            [
                code(profile.name),
                profile.family,
                _describes(profile),
                ", ".join(profile.flags),
                ", ".join(profile.fitted_on) or "nothing: its family's scalar",
                *(f"{scalar(read_calibration(), profile, moe):.3f}" for moe in (False, True)),
            ]
        )
    return markdown(rows)


def _describes(profile: SoftwareProfile) -> str:
    """The runs that a profile is for."""
    parts = [code(profile.framework) if profile.framework else "any framework"]
    parts += [f"chip {code(profile.chip)}"] if profile.chip else []
    parts += [f"precision {code(profile.precision)}"] if profile.precision else []
    parts += [f"from {profile.first}"] if profile.first else []
    parts += [f"before {profile.until}"] if profile.until != "9" else []
    return ", ".join(parts)


TABLES: dict[str, Callable[[], str]] = {
    "constants": lambda: fitted("constant"),
    "ratios": lambda: fitted("ratio"),
    "chips": chips,
    "profiles": profiles,
}


def render(page: str, errors: str = "") -> str:
    """The page with its tables as the data is now; the errors only if they are given."""

    def fresh(match: re.Match[str]) -> str:
        """One marked table."""
        name = match["name"]
        if name in TABLES:
            return f"{match[1]}\n{TABLES[name]()}\n{match[3]}"
        return f"{match[1]}\n{errors.strip()}\n\n{match[3]}" if errors else match[0]

    return _MARKED.sub(fresh, page)


def errors_are_current(page: str) -> bool:
    """Whether the table of errors was made with the calibration that is there."""
    return f"`{hashlib.sha256(PATH.read_bytes()).hexdigest()[:8]}`" in page


def main(arguments: list[str]) -> int:
    """Writes or checks the page."""
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in arguments:
        stale = page != render(page)
        print(f"stale: run python tools/{Path(__file__).name}" if stale else "up to date")
        if not errors_are_current(page):
            print(
                "the errors are of another calibration: run bench/accuracy_training.py, then --errors"
            )
        return int(stale)
    found = Path(arguments[arguments.index("--errors") + 1]) if "--errors" in arguments else None
    PAGE.write_text(
        render(page, found.read_text(encoding="utf-8") if found else ""), encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

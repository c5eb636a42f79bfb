"""What is written, letter by letter: a leaf, a spine and a server of a small fabric for every OS.

To write the files again after a change that is meant: GPUYARD_GOLDEN=write pytest tests/fabric/render/test_golden.py
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.render.fabric_files import render

FOLDER = Path(__file__).parent.parent.parent / "golden" / "fabric"
SYSTEMS = ("junos", "sonic", "cumulus", "eos", "nxos", "frr")
CASES = ("ipv4", "tenants-unnumbered")
SHOWN = ("leaf-s1-r1/", "spine-1/", "server-1/")


def shown(fabric: Fabric, case: str) -> Iterator[tuple[str, str]]:
    """The files that are golden: with tenants those of the leaf alone, for the rest is the same."""
    for file in render(fabric, load_catalog()):
        if file.path.startswith("twin/switches"):
            continue
        if case == "ipv4" and (
            file.path.count("/") < 2 or any(name in file.path for name in SHOWN)
        ):
            yield file.path, file.text
        if case != "ipv4" and file.path.startswith("switches/leaf-s1-r1/"):
            yield file.path, file.text


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_files_match_the_golden_ones(
    system: str, case: str, variants: Callable[[str], dict[str, Fabric]]
) -> None:
    folder = FOLDER / f"{system}-{case}"
    rendered = dict(shown(variants(system)[case], case))
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        for path, text in rendered.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    golden = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert sorted(rendered) == sorted(golden)
    for path, text in rendered.items():
        assert text == golden[path], path


def test_rendering_is_deterministic(make: Callable[..., Fabric]) -> None:
    once, again = (list(render(make("sonic"), load_catalog())) for _ in range(2))
    assert once == again
    assert len({file.path for file in once}) == len(once)

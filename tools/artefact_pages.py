"""Write docs/reference/artefacts-PLATFORM.md: rendered artefacts next to the public reference.

Every setting of docs/data/artefact_references.toml is read from the artefact that is rendered now.
A difference without a reason, or a reason without a difference, is an error.

python tools/artefact_pages.py            write the pages
python tools/artefact_pages.py --check    fail if a page is out of date
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpuyard.catalog.load import load_catalog
from gpuyard.provision.deployment_settings import DeploymentSettings, resolve_settings
from gpuyard.provision.platform import Artefacts
from gpuyard.provision.platforms import platform_named
from sample_blueprints import BlueprintSample, sample_blueprint

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "data" / "artefact_references.toml"
MACHINE = "a3-ultragpu-8g"
SETTINGS = DeploymentSettings(
    project="my-project", owner="somebody", rendered_s=1_800_000_000.0, zone="europe-west1-b"
)
LANGUAGES = {"json": "json", "yaml": "yaml", "sbatch": "bash"}


def rendered(platform_name: str) -> dict[str, str]:
    """Render a multi-node job on a reservation of A3 Ultra; texts by file name."""
    catalog = load_catalog()
    machine = next(row for row in catalog.machines if row.name == MACHINE)
    sample = BlueprintSample(machine=machine, shape="multi-node", consumption="reservation")
    blueprint = sample_blueprint(sample, catalog)
    platform = platform_named(platform_name)
    assert platform is not None
    settings = resolve_settings(blueprint, SETTINGS)
    result = platform.render(blueprint, settings)
    assert isinstance(result, Artefacts), result
    return {file.name: _without_hash(file.text, settings.hash) for file in result.files}


def _without_hash(text: str, digest: str) -> str:
    """Return a text without the blueprint's hash, which every change of the catalog changes."""
    for length in (16, 8, 6):  # of labels, of Slurm clusters, of names
        text = text.replace(digest[:length], "0" * length)
    return text


def value_at(files: dict[str, str], place: str) -> str:
    """Return the value of a setting: `FILE path`, `FILE Kind:path` or `FILE /pattern/`."""
    name, _, where = place.partition(" ")
    text = files[name]
    if where.startswith("/"):
        match = re.search(where[1:-1], text)
        assert match, f"{place}: no match"
        return match[1]
    kind, colon, path = where.partition(":")
    if colon:
        trees = [tree for tree in yaml.safe_load_all(text) if tree and tree.get("kind") == kind]
        tree: Any = trees[0]
    else:
        path, tree = where, json.loads(text)
    for key in _keys(path):
        tree = tree[key]
    return str(tree).lower() if isinstance(tree, bool) else str(tree)


def _keys(path: str) -> Iterator[str | int]:
    head, slash, tail = path.partition(".kueue.x-k8s.io/")
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", head):
        yield int(index) if index else name
    if slash:
        yield f"kueue.x-k8s.io/{tail}"


def page(name: str, data: dict[str, Any]) -> str:
    """Return the page of a platform; ValueError if a difference is not explained."""
    spec = data["pages"][name]
    source = data["sources"][spec["source"]]
    files = rendered(name)
    lines = [
        f"# {spec['title']}: artefacts next to the public reference",
        "",
        f"Written by `tools/artefact_pages.py` for a training on two {MACHINE} machines of a reservation, and compared",
        f"with [{source['title']}]({source['url']}).",
        "",
        "| setting | rendered | reference | why they differ |",
        "|---|---|---|---|",
    ]
    same = 0
    for row in spec["rows"]:
        ours, why = value_at(files, row["at"]), row.get("why", "")
        is_same = ours == row["reference"]
        if is_same == bool(why):
            problem = (
                "a reason without a difference" if is_same else "a difference without a reason"
            )
            raise ValueError(f"{name}, {row['setting']}: {problem} ({ours})")
        same += is_same
        cells = (row["setting"], f"`{ours}`", "the same" if is_same else row["reference"], why)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"{same} of {len(spec['rows'])} settings are those of the reference.", ""]
    for file in spec["files"]:
        language = LANGUAGES[file.rsplit(".", 1)[1]]
        lines += [f"## {file}", "", f"```{language}", files[file].rstrip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))
    outdated = []
    for name in data["pages"]:
        path = ROOT / "docs" / "reference" / f"artefacts-{name}.md"
        text = page(name, data)
        if "--check" in sys.argv[1:]:
            outdated += [path.name] if not path.exists() or path.read_text("utf-8") != text else []
        else:
            path.write_text(text, encoding="utf-8")
    for name in outdated:
        print(f"{name} is out of date: run python tools/artefact_pages.py")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())

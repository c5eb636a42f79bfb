"""Writes the API descriptions that `gpuyard lint` checks against, and says how newer ones differ.

python tools/provision_schemas.py DIR            write src/gpuyard/provision/schemas/data from DIR
python tools/provision_schemas.py DIR --check    say whether DIR still says what we ship; exit 1 if it does not
python tools/provision_schemas.py DIR --diff     the same, with every field, enum value and method that differs

DIR holds:
  origins.toml     for each part below: title, url, revision, date, licence
  google/          discovery documents, e.g. from the google-api-python-client wheel (compute.v1.json, ...)
  kubernetes/      a _definitions.json of strict schemas, e.g. from the kubernetes-validate wheel
  crds/PROJECT/    CustomResourceDefinition YAML, or single schemas as JSON
  toolkit/         modules/ and community/modules/ of the Cluster Toolkit
  terraform/       provider.jsii: package/.jsii of the archive in the cdktn-provider-google wheel
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from schema_sources import GOOGLE, custom_resources, google, kubernetes, toolkit
from terraform_schema import terraform

DATA = Path(__file__).parent.parent / "src" / "gpuyard" / "provision" / "schemas" / "data"


def build(sources: Path) -> dict[str, dict[str, object]]:
    """Every shipped file by name, made from the sources."""
    origins = tomllib.loads((sources / "origins.toml").read_text(encoding="utf-8"))
    made: dict[str, dict[str, object]] = {}
    for api, resources in GOOGLE.items():
        document = json.loads(_one(sources / "google", f"{api}.json").read_text(encoding="utf-8"))
        revision = document["revision"]
        date = f"{revision[:4]}-{revision[4:6]}-{revision[6:]}"
        origin = {
            **origins["google"],
            "title": document["title"],
            "revision": revision,
            "date": date,
        }
        made[api] = {"origins": [origin], **google(document, resources)}
    definitions = json.loads(
        _one(sources / "kubernetes", "_definitions.json").read_text(encoding="utf-8")
    )["$defs"]
    core = kubernetes(definitions)
    made["kubernetes"] = {"origins": [origins["kubernetes"]], **core}
    files = sorted(
        path for path in (sources / "crds").rglob("*") if path.suffix in (".yaml", ".json")
    )
    meta = _closed(core["defs"])
    crds = custom_resources(files, meta)
    made["crds"] = {"origins": [origins["crds"][name] for name in sorted(origins["crds"])], **crds}
    made["toolkit"] = {"origins": [origins["toolkit"]], **toolkit(sources / "toolkit")}
    provider = _one(sources / "terraform", "provider.jsii")
    made["terraform"] = {"origins": [origins["terraform"]], **terraform(provider)}
    return made


def _closed(defs: dict[str, dict[str, object]]) -> dict[str, object]:
    """ObjectMeta with what it refers to written in place."""

    def inline(schema: object) -> object:
        if isinstance(schema, dict):
            if isinstance(schema.get("$ref"), str):
                return inline(defs[schema["$ref"].removeprefix("#/$defs/")])
            return {key: inline(value) for key, value in schema.items()}
        return schema

    return inline(defs["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"])  # type: ignore[return-value]


def _one(folder: Path, name: str) -> Path:
    """The file of that name below the folder."""
    found = sorted(folder.rglob(name))
    if not found:
        sys.exit(f"{folder}: no {name}")
    return found[-1]


def packed(part: dict[str, object]) -> bytes:
    """The part as it is shipped; the same contents give the same bytes."""
    text = json.dumps(part, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def flat(tree: object, path: str = "") -> Iterator[str]:
    """Every leaf of a tree as `path = value`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from flat(value, f"{path}/{key}")
    elif isinstance(tree, list):
        for value in tree:
            yield f"{path} has {json.dumps(value, sort_keys=True)}"
    else:
        yield f"{path} = {json.dumps(tree)}"


def drift(name: str, part: dict[str, object]) -> tuple[list[str], list[str]]:
    """What the sources say and the shipped file does not, and the reverse."""
    path = DATA / f"{name}.json.gz"
    shipped = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else {}
    old, new = set(flat(shipped)), set(flat(part))
    return sorted(new - old), sorted(old - new)


def main() -> int:
    """Writes, or compares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--diff", action="store_true")
    arguments = parser.parse_args()
    drifted = 0
    for name, part in build(arguments.sources).items():
        if not (arguments.check or arguments.diff):
            data = packed(part)
            (DATA / f"{name}.json.gz").write_bytes(data)
            print(f"{name}: {len(data)} bytes")
            continue
        added, removed = drift(name, part)
        drifted += bool(added or removed)
        print(f"{name}: {len(added)} added, {len(removed)} removed")
        if arguments.diff:
            print(
                "".join(f"  + {line}\n" for line in added)
                + "".join(f"  - {line}\n" for line in removed),
                end="",
            )
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())

"""Kubernetes objects as YAML text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import yaml

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.artefact import Artefact

Object = dict[str, Plain]

if TYPE_CHECKING:
    from yaml import SafeDumper as _SafeDumper
else:
    _SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # five times as fast


class _Dumper(_SafeDumper):
    """Multi-line strings as blocks, and no anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Quote what another YAML reader may take for a number.
    style = "|" if "\n" in text else "'" if text[:1] in "0123456789+-." else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def manifest(name: str, objects: Iterable[Object]) -> Artefact:
    """Return a YAML file with the objects."""
    text = yaml.dump_all(
        list(objects), Dumper=_Dumper, sort_keys=False, width=120, explicit_start=True
    )
    return Artefact(name=name, text=text)

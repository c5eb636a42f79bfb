"""Kubernetes objects as YAML text."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from gpuyard.document import Plain
from gpuyard.provision.artefact import Artefact

__all__ = ["Object", "manifest"]

Object = dict[str, Plain]


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as they are, and no anchors."""

    def ignore_aliases(self, _data: object) -> bool:
        """Never an anchor: each object is read by itself."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text; one of several lines keeps them, and one that another reader may take for a number is quoted."""
    style = "|" if "\n" in text else "'" if text[:1] in "0123456789+-." else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def manifest(name: str, objects: Iterable[Object]) -> Artefact:
    """One file with all the objects."""
    text = yaml.dump_all(list(objects), Dumper=_Dumper, sort_keys=False, width=120, explicit_start=True)
    return Artefact(name=name, text=text)

"""Keys that are right and stand in the wrong section: `deadline` at the top belongs under `requirements`."""

from __future__ import annotations

from gpuyard.document import Document, Mapping
from gpuyard.errors import Problem, one_of
from gpuyard.workload.keys import keys_of
from gpuyard.workload.workload import WorkloadFile

__all__ = ["misplaced_keys"]


def _sections() -> dict[str, frozenset[str]]:
    """The words of each section, by the section's own word; the file itself is the section without one."""
    top = keys_of(WorkloadFile)
    inner = {
        key.word: frozenset(inner.word for inner in keys_of(key.shape.base))
        for key in top
        if key.shape.is_record
    }  # fmt: skip
    return {"": frozenset(key.word for key in top), **inner}


def misplaced_keys(document: Document) -> dict[str, Problem]:
    """A problem for each such key, by where it stands."""
    sections, root = _sections(), document.root
    found: dict[str, Problem] = {}
    for section, known in sections.items():
        node = root.get(section) if section and isinstance(root, Mapping) else root
        if not isinstance(node, Mapping):
            continue
        for (key, _), place in zip(node.items, node.key_places, strict=True):
            homes = [home for home, words in sections.items() if key in words]
            if key in known or not homes:
                continue
            named = [f'under "{home}"' for home in homes if home]
            target = one_of(named) if named else "to the top of the file"
            inside = f'in "{section}"' if section else "here"
            found[str(place)] = place.problem(f'"{key}" does not belong {inside}', f"move it {target}")
    return found

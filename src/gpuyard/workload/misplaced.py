"""Valid keys in the wrong section: `deadline` at the top level belongs under `requirements`."""

from __future__ import annotations

from gpuyard.document.tree import Document, Mapping
from gpuyard.errors import Problem, choices_text
from gpuyard.workload.key_rules import keys_of
from gpuyard.workload.workload import WorkloadFile


# The keys of each section by its name; the top level has an empty name.
def _sections() -> dict[str, frozenset[str]]:
    top = keys_of(WorkloadFile)
    inner = {
        key.word: frozenset(inner.word for inner in keys_of(key.type.base))
        for key in top
        if key.type.is_record
    }
    return {"": frozenset(key.word for key in top), **inner}


def misplaced_keys(document: Document) -> dict[str, Problem]:
    """Return a problem for each misplaced key, by its location."""
    sections = _sections()
    root = document.root
    problems: dict[str, Problem] = {}
    for section, known in sections.items():
        node = root.get(section) if section and isinstance(root, Mapping) else root
        if not isinstance(node, Mapping):
            continue
        for (key, _), location in zip(node.items, node.key_locations, strict=True):
            owners = [owner for owner, words in sections.items() if key in words]
            if key in known or not owners:
                continue
            named = [f'under "{owner}"' for owner in owners if owner]
            target = choices_text(named) if named else "to the top level of the file"
            inside = f'in "{section}"' if section else "at the top level"
            problems[str(location)] = location.problem(
                f'"{key}" does not belong {inside}', f"move it {target}"
            )
    return problems

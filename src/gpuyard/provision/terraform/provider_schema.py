"""The schema of Terraform's Google provider: arguments and nested blocks of each resource."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.schemas.library import provider_resources


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentSchema:
    """Type of an argument: string, number, bool, list(...) or map(...)."""

    type: str
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSchema:
    """Arguments and nested blocks of a resource or a block."""

    arguments: dict[str, ArgumentSchema]
    blocks: dict[str, BlockSchema]
    is_required: bool = False
    is_repeated: bool = False
    outputs: tuple[str, ...] = ()  # attributes that the provider computes


@functools.cache
def resource_schema(type_: str) -> BlockSchema:
    """Return the schema of a resource type of the provider."""
    return _block(provider_resources()[type_])


def schema_problems(tree: Mapping[str, object], schema: BlockSchema, path: str) -> Iterator[str]:
    """Yield what the provider would refuse: unknown names, and required ones that are missing."""
    for name in tree:
        if name not in schema.arguments and name not in schema.blocks:
            yield f"{path}.{name}: unknown argument"
    for name, argument in schema.arguments.items():
        if argument.is_required and name not in tree:
            yield f"{path}.{name}: is required"
    for name, block in schema.blocks.items():
        children = tree.get(name)
        if children is None:
            if block.is_required:
                yield f"{path}.{name}: is required"
            continue
        items = children if isinstance(children, list) else [children]
        if len(items) > 1 and not block.is_repeated:
            yield f"{path}.{name}: is given {len(items)} times, and the provider takes one"
        for item in items:
            assert isinstance(item, Mapping), f"{path}.{name} is a block"
            yield from schema_problems(item, block, f"{path}.{name}")


def _block(raw: Plain) -> BlockSchema:
    tree = raw if isinstance(raw, dict) else {}
    arguments, blocks = tree.get("arguments"), tree.get("blocks")
    kind = str(tree.get("kind", ""))
    outputs = tree.get("outputs")
    return BlockSchema(
        arguments={name: _argument(str(text)) for name, text in _items(arguments)},
        blocks={name: _block(child) for name, child in _items(blocks)},
        is_required=kind.endswith("!"),
        is_repeated=kind.startswith("many"),
        outputs=tuple(str(name) for name in outputs) if isinstance(outputs, list) else (),
    )


def _argument(text: str) -> ArgumentSchema:
    return ArgumentSchema(type=text.removesuffix("!"), is_required=text.endswith("!"))


def _items(tree: Plain) -> Iterator[tuple[str, Plain]]:
    return iter(tree.items()) if isinstance(tree, dict) else iter(())

"""A Terraform resource as a tree of arguments and blocks, made from a request of a Google API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuyard.document.frozen_json import Plain
from gpuyard.provision.terraform.hcl import Tree, Value, block_lines, quoted
from gpuyard.provision.terraform.provider_schema import (
    BlockSchema,
    resource_schema,
    schema_problems,
)
from gpuyard.provision.terraform.resource_rows import ResourceRow, resource_rows

# Words of API names, also in capitals: IPProtocol is ip_protocol.
WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
PARAMETERS = {"projectsId": "project", "locationsId": "location"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource block: its type, local name, arguments and nested blocks."""

    type: str
    local: str
    tree: Tree
    ignored_changes: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    runs_machines: bool = False

    @property
    def address(self) -> str:
        """TYPE.NAME, as other resources refer to it."""
        return f"{self.type}.{self.local}"

    @property
    def text(self) -> str:
        """The block in HCL."""
        lines = [f"resource {quoted(self.type)} {quoted(self.local)} {{"]
        lines += block_lines(self.tree, resource_schema(self.type))
        if self.ignored_changes:
            ignored = ", ".join(self.ignored_changes)
            lines += ["", "  lifecycle {", f"    ignore_changes = [{ignored}]", "  }"]
        if self.depends_on:
            lines += ["", "  depends_on = ["]
            lines += [f"    {address}," for address in self.depends_on]
            lines += ["  ]"]
        return "\n".join([*lines, "}"])


def has_resource(method: str) -> bool:
    """Return whether the provider has a resource for the requests of a method."""
    return method in resource_rows()


def resources_of(
    method: str, parameters: Mapping[str, Plain], body: Mapping[str, Plain], deployment: str
) -> tuple[Resource, ...]:
    """Return the resources that replace a request, the main one first.

    Args:
        deployment: prefix of resource names, which local names leave out.

    Raises:
        ValueError: the provider's schema has no place for a part of the request.
    """
    row = resource_rows()[method]
    return tuple(_resources(row, parameters, body, deployment))


def _resources(
    row: ResourceRow, parameters: Mapping[str, Plain], body: Mapping[str, Plain], deployment: str
) -> Iterator[Resource]:
    schema = resource_schema(row.type)
    reader = _BodyReader(row=row)
    tree: Tree = {}
    for name, value in parameters.items():
        argument = row.argument_of(name) or PARAMETERS.get(name) or _snake(name)
        # The provider block names the project.
        if argument in schema.arguments and argument != "project":
            tree[argument] = str(value)
    children = tuple(reader.read(body, "", schema, tree))
    for argument, default in row.default_values.items():
        _place(tree, argument.split("."), _scalar(default, "any"))
    _apply_provider_rules(tree)
    problems = tuple(schema_problems(tree, schema, row.type))
    if problems:
        raise ValueError("; ".join(problems))
    main = Resource(
        type=row.type,
        local=_local_name(tree, deployment),
        tree=tree,
        ignored_changes=row.ignored_changes,
        runs_machines=row.runs_machines,
    )
    yield main
    for child_type, child in children:
        child_row = _row_of(child_type)
        prefix = next((move.name for move in child_row.moves if move.to == ""), "")
        own = {**parameters, row.parent: str(tree["name"])}
        inner: dict[str, Plain] = {prefix: child} if prefix else child
        yield from _resources(child_row, own, inner, deployment)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BodyReader:
    """Reads a request body into a tree; what becomes a separate resource is yielded."""

    row: ResourceRow

    def read(
        self, body: Mapping[str, Plain], path: str, schema: BlockSchema, tree: Tree
    ) -> Iterator[tuple[str, dict[str, Plain]]]:
        for key, value in body.items():
            here = f"{path}.{key}".lstrip(".")
            move = self.row.move_of(here)
            separate = self.row.separate_type(here)
            if separate is not None:
                yield from ((separate, item) for item in _mappings(value))
            elif move == "":
                for item in _mappings(value):
                    yield from self.read(item, here, schema, tree)
            elif move != "-" and value is not None:
                target = move.split(".") if move else [_name_in(schema, key)]
                yield from self._write(value, here, target, schema, tree)

    def _write(
        self, value: Plain, path: str, target: list[str], schema: BlockSchema, tree: Tree
    ) -> Iterator[tuple[str, dict[str, Plain]]]:
        name, *rest = target
        block = schema.blocks.get(name)
        if rest and block is not None:
            yield from self._write(value, path, rest, block, _only_block(tree, name))
        elif block is None:
            argument = schema.arguments.get(name)
            kind = argument.type if argument is not None else "any"
            tree[name] = _last_part(_scalar(value, kind), name in self.row.last_part)
        else:
            key_argument = self.row.key_of(path)
            for key, item in _items(value, is_named=key_argument is not None):
                child: Tree = {key_argument: key} if key_argument else {}
                yield from self.read(item, path, block, child)
                existing = tree.setdefault(name, [])
                assert isinstance(existing, list), f"{name} is a block"
                existing.append(child)


def _only_block(tree: Tree, name: str) -> Tree:
    """The block of that name, created if there is none."""
    blocks = tree.setdefault(name, [{}])
    assert isinstance(blocks, list)
    block = blocks[0]
    assert isinstance(block, dict)
    return block


def _place(tree: Tree, path: list[str], value: Value) -> None:
    for name in path[:-1]:
        tree = _only_block(tree, name)
    tree.setdefault(path[-1], value)


def _apply_provider_rules(tree: Tree) -> None:
    # google_compute_instance: "If spot, preemptible should be true"; without an e-mail, the
    # provider takes the default service account.
    for block in _blocks(tree, "scheduling"):
        if block.get("provisioning_model") == "SPOT":
            block["preemptible"] = True
    for block in _blocks(tree, "service_account"):
        if block.get("email") == "default":
            del block["email"]


def _blocks(tree: Tree, name: str) -> Iterator[Tree]:
    items = tree.get(name)
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))


def _scalar(value: Plain, kind: str) -> Value:
    """A value in the type of its argument; numbers are text in some APIs."""
    if isinstance(value, dict):
        pairs = value.get("items")
        if isinstance(pairs, list):  # metadata: a list of keys and values
            return {str(pair["key"]): str(pair["value"]) for pair in _mappings(pairs)}
        return {key: _scalar(item, "any") for key, item in value.items()}
    if isinstance(value, list):
        return [_scalar(item, "any") for item in value]
    assert value is not None
    if kind == "number" and isinstance(value, str):
        return int(value)
    return str(value) if kind == "string" and not isinstance(value, bool) else value


def _last_part(value: Value, is_name: bool) -> Value:
    return value.rsplit("/", 1)[-1] if is_name and isinstance(value, str) else value


def _mappings(value: Plain) -> Iterator[dict[str, Plain]]:
    items = value if isinstance(value, list) else [value]
    yield from (item for item in items if isinstance(item, dict))


def _items(value: Plain, *, is_named: bool) -> Iterator[tuple[str, dict[str, Plain]]]:
    if is_named and isinstance(value, dict):
        yield from ((key, item) for key, item in value.items() if isinstance(item, dict))
    else:
        yield from (("", item) for item in _mappings(value))


def _snake(name: str) -> str:
    return WORD.sub("_", name).lower()


def _name_in(schema: BlockSchema, key: str) -> str:
    """The key in snake case, or its singular, as the schema has it."""
    name = _snake(key)
    singulars = (name.removesuffix("s"), re.sub(r"ies$", "y", name), re.sub(r"ses$", "s", name))
    known = {**schema.arguments, **schema.blocks}
    return next((option for option in (name, *singulars) if option in known), name)


def _local_name(tree: Tree, deployment: str) -> str:
    name = str(tree.get("name", "cluster"))
    own = name.rpartition(deployment)[2] if deployment in name else name
    local = re.sub(r"[^a-z0-9_]", "_", own.lower()).strip("_") or "main"
    return local if local[0].isalpha() else f"r_{local}"


def _row_of(type_: str) -> ResourceRow:
    rows = (row for row in resource_rows().values() if row.type == type_)
    return next(rows, ResourceRow(method="", type=type_))

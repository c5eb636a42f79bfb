"""`gpuyard catalog`: rows of a kind, filtered and sorted by any field."""

from __future__ import annotations

import fnmatch
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields

from gpuyard.catalog.load import Catalog, Row
from gpuyard.document.field_types import FieldType, field_type_of, fields_of
from gpuyard.errors import InputError, choices_text, closest_match
from gpuyard.units import Dimension, UnitError, parse

KINDS = tuple(field.name for field in dataclass_fields(Catalog))
_CONDITION = re.compile(
    r"(?P<field>[A-Za-z0-9_.]+)\s*(?P<operator>>=|<=|!=|=|>|<|~)\s*(?P<operand>.*)"
)

# What a table shows when no columns are asked for: heading and field.
COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "graphics": (
        ("chip", "name"), ("RT cores", "rt_core_generation"), ("NVENC", "nvenc_count"),
        ("NVDEC", "nvdec_count"), ("encode", "encode_frames_per_s"),
        ("decode", "decode_frames_per_s"), ("vWS", "vws"), ("displays", "display_count"),
    ),
    "interruptions": (
        ("name", "name"), ("cause", "cause"), ("events", "events_count"), ("of", "unit_count"),
        ("unit", "unit"), ("in", "observed_s"), ("restart", "restart_s"), ("chips", "chips"),
    ),
    "guidance": (
        ("name", "name"), ("task", "task"), ("series", "series"), ("platforms", "orchestrators"),
        ("consumption", "consumption"), ("storage", "storage"),
    ),
    "chips": (
        ("name", "name"), ("kind", "kind"), ("bf16", "bf16"), ("fp8", "fp8"), ("fp4", "fp4"),
        ("fp64", "fp64"), ("memory", "memory_bytes"), ("bandwidth", "memory_bytes_per_s"),
        ("scale-up", "scale_up.bytes_per_s"), ("power", "power_w"), ("frameworks", "frameworks"),
    ),
    "machines": (
        ("name", "name"), ("series", "series"), ("chips", "chip_count"), ("chip", "chip"),
        ("vCPU", "vcpu_count"), ("memory", "memory_bytes"), ("network", "network.technology"),
        ("fabric", "network.fabric_bits_per_s"), ("total", "network.max_bits_per_s"),
        ("on demand", "consumption.on_demand"), ("spot", "consumption.spot"),
        ("flex", "consumption.flex_start"),
    ),
    "platforms": (
        ("name", "name"), ("gives it", "variants"), ("control", "control"),
        ("scaling", "scaling"), ("suits", "suits"),
    ),
    "storage": (
        ("name", "name"), ("kind", "kind"), ("scope", "scope"),
        ("read/TiB", "read_bytes_per_s_per_tib"), ("max read", "max_read_bytes_per_s"),
        ("max write", "max_write_bytes_per_s"), ("min", "min_bytes"), ("max", "max_bytes"),
        ("suits", "suits"),
    ),
    "asics": (
        ("name", "name"), ("vendor", "vendor"), ("capacity", "capacity"), ("buffer", "buffer"),
        ("cell", "cell"),
    ),
    "switches": (
        ("name", "name"), ("vendor", "vendor"), ("asic", "asic"), ("ports", "port_count"),
        ("speed", "port_bits_per_s"), ("power", "power_w"), ("OS", "os"), ("roles", "roles"),
    ),
    "providers": (
        ("name", "name"), ("label", "label"), ("Kubernetes", "kubernetes"), ("Slurm", "slurm"),
        ("note", "note"),
    ),
    "optics": (
        ("name", "name"), ("vendor", "vendor"), ("use", "use"), ("medium", "medium"),
        ("port", "port_bits_per_s"), ("reach m", "reach_m"), ("power", "power_w"),
        ("USD", "price_usd"),
    ),
    "regions": (
        ("name", "name"), ("provider", "provider"), ("place", "place"), ("note", "note"),
    ),
    "prices": (
        ("provider", "provider"), ("region", "region"), ("machine", "machine"),
        ("on demand", "on_demand"), ("spot", "spot"), ("1 year", "committed_1y"),
        ("3 years", "committed_3y"), ("date", "date"),
    ),
    "quotas": (
        ("region", "region"), ("metric", "metric"), ("limit", "limit"), ("used", "used"),
        ("date", "date"),
    ),
    "models": (
        ("name", "name"), ("kind", "kind"), ("parameters", "parameters"),
        ("active", "active_parameters"), ("layers", "layers"), ("hidden", "hidden"),
        ("heads", "heads"), ("kv", "kv_heads"), ("experts", "experts"),
        ("context", "max_context"),
    ),
    "sources": (("name", "name"), ("title", "title"), ("date", "date"), ("url", "url")),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPath:
    """A field of a row, possibly nested: `dense.bf16_flop_per_s`."""

    name: str
    shape: FieldType

    @property
    def dimension(self) -> Dimension | None:
        """Unit of the values, if they have one."""
        return self.shape.dimension

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers or quantities."""
        return self.dimension is not None or self.shape.base in (int, float)

    def of(self, row: object) -> object:
        """The row's value, None if any part of the path is missing."""
        value: object = row
        for step in self.name.split("."):
            value = getattr(value, step) if value is not None else None
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Conditions and order: `where=("memory>=80GB", "kind=gpu")`, `sort="-bf16"`."""

    kind: str
    where: tuple[str, ...] = ()
    sort: str = ""


def row_type(kind: str) -> type[Row]:
    """Return the record type of a kind of rows."""
    if kind not in KINDS:
        meant = closest_match(kind, KINDS)
        raise InputError.one(
            "catalog", f'no kind of row named "{kind}"', f"use {meant or choices_text(KINDS)}"
        )
    hints = typing.get_type_hints(Catalog, include_extras=True)
    return typing.cast("type[Row]", field_type_of(hints[kind]).options[0].base)


def field_paths(record: type, prefix: str = "") -> tuple[FieldPath, ...]:
    """List all fields of a record, including nested ones."""
    paths: list[FieldPath] = []
    for field in fields_of(record):
        name = prefix + field.name
        if field.type.is_record:
            paths += field_paths(field.type.base, f"{name}.")
        else:
            paths.append(FieldPath(name=name, shape=field.type))
    return tuple(paths)


def find_field(paths: Sequence[FieldPath], word: str) -> FieldPath:
    """Find a field by its path, its last part, or that without its unit (`bf16`)."""
    for spelling in (_whole, _last, _bare, _whole_bare):
        for path in paths:
            if spelling(path) == word:
                return path
    known = [_bare(path) for path in paths]
    meant = closest_match(word, known)
    fix = (
        f'did you mean "{meant}"?' if meant else f"use {choices_text(sorted(set(known)), limit=30)}"
    )
    raise InputError.one("catalog", f'rows have no field "{word}"', fix)


def _whole(path: FieldPath) -> str:
    return path.name


def _whole_bare(path: FieldPath) -> str:
    return path.name.removesuffix(path.dimension.suffix) if path.dimension else path.name


def _last(path: FieldPath) -> str:
    return path.name.rpartition(".")[2]


def _bare(path: FieldPath) -> str:
    return _last(path).removesuffix(path.dimension.suffix) if path.dimension else _last(path)


def catalog_rows(catalog: Catalog, query: Query) -> tuple[Row, ...]:
    """Rows that meet every condition, sorted; unknown values meet none and come last."""
    paths = field_paths(row_type(query.kind))
    conditions = [_condition(text, paths) for text in query.where]
    rows = [
        row
        for row in getattr(catalog, query.kind)
        if all(condition.holds(row) for condition in conditions)
    ]
    if query.sort:
        path = find_field(paths, query.sort.removeprefix("-"))
        known = [row for row in rows if path.of(row) is not None]
        known.sort(key=lambda row: _orderable(path.of(row)), reverse=query.sort.startswith("-"))
        rows = known + [row for row in rows if path.of(row) is None]
    return tuple(rows)


def row_with_sources(catalog: Catalog, row: Row) -> Catalog:
    """A catalog file with one row and its sources, to copy as your own row."""
    kind = next(kind for kind in KINDS if row in getattr(catalog, kind))
    tables: dict[str, typing.Any] = {
        "sources": tuple(catalog.source(name) for name in row.source),
        kind: (row,),
    }
    return Catalog(**tables)


def _orderable(value: object) -> tuple[float, str]:
    if isinstance(value, int | float):
        return (float(value), "")
    return (0.0, str(value).casefold())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """A parsed condition such as `memory>=80GB`."""

    path: FieldPath
    operator: str
    operand: float | str

    def holds(self, row: Row) -> bool:
        """Whether the row's value is known and meets the condition."""
        value = self.path.of(row)
        if value is None:
            return False
        if isinstance(value, tuple):
            inside = any(_same(item, self.operand) for item in value)
            return inside if self.operator in ("=", "~") else not inside
        if isinstance(self.operand, float):
            return _compare(float(typing.cast(float, value)), self.operator, self.operand)
        if self.operator == "~":
            return self.operand.casefold() in str(value).casefold()
        return _same(value, self.operand) == (self.operator == "=")


def _compare(value: float, operator: str, operand: float) -> bool:
    """Compare numbers; equal means equal to one part in a million, since `80GB` is rounded."""
    equal = abs(value - operand) <= 1e-6 * max(abs(value), abs(operand))
    if operator in ("=", "!="):
        return equal == (operator == "=")
    if equal:
        return operator in (">=", "<=")
    return value > operand if operator in (">", ">=") else value < operand


def _same(value: object, operand: float | str) -> bool:
    """Match text by glob, ignoring case; yes and no for booleans."""
    text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    return fnmatch.fnmatchcase(text.casefold(), str(operand).casefold())


def _condition(text: str, paths: Sequence[FieldPath]) -> _Condition:
    match = _CONDITION.fullmatch(text.strip())
    if not match:
        raise InputError.one(
            "--where", f'"{text}" is not a condition', 'write it like "memory>=80GB" or "kind=gpu"'
        )
    path = find_field(paths, match["field"])
    operator, operand = match["operator"], match["operand"].strip()
    if path.numeric and operator != "~":
        return _Condition(path=path, operator=operator, operand=_number(operand, path))
    if operator not in ("=", "!=", "~"):
        raise InputError.one(
            "--where", f'"{match["field"]}" is a text, it has no order', "use =, != or ~ (contains)"
        )
    return _Condition(path=path, operator=operator, operand=operand)


def _number(text: str, path: FieldPath) -> float:
    """The operand in the field's unit; a bare number is in SI."""
    try:
        return float(text)
    except ValueError:
        pass
    if not path.dimension:
        raise InputError.one("--where", f'"{text}" is not a number', "write a number")
    try:
        return parse(text, path.dimension)
    except UnitError as error:
        raise InputError.one("--where", error.what, error.fix) from None

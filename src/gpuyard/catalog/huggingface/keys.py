"""Numbers, flags and lists of one section of a config, by role; problems are collected."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.catalog.huggingface.roles import ROLES, Role
from gpuyard.catalog.huggingface.types import TypeInfo
from gpuyard.document.tree import Mapping as Keyed
from gpuyard.document.tree import Node, Scalar, Sequence, SourceLocation
from gpuyard.errors import Problem

MAX_DIMENSION = 10**9  # larger numbers mean a wrong file
PER_LAYER: tuple[Role, ...] = ("ffn", "heads", "kv_heads")  # may be a list, one per layer
NESTED = ("attn_config", "ffn_config", "linear_attn_config", "ssm_cfg")  # sections of numbers


class ConfigKeys:
    """One section of a config with what is known of its type."""

    def __init__(self, keys: Keyed, info: TypeInfo, outer: Keyed | None = None) -> None:
        self.keys, self.info, self.outer = keys, info, outer
        self.problems: list[Problem] = []
        self.assumed: dict[str, float] = {}  # defaults of transformers in use

    def number(self, role: Role, minimum: int = 1) -> int | None:
        """Return the integer under the first existing key of a role; None if there is none."""
        for node in self._nodes(ROLES[role]):
            value = node.value if isinstance(node, Scalar) else None
            if role in PER_LAYER:
                value = value or _mean(node)
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, int) and whole and minimum <= value <= MAX_DIMENSION:
                return value
            text = node.text[:60] if isinstance(node, Scalar) else "a list or an object"
            fix = f"write {minimum} to {MAX_DIMENSION}"
            self.wrong(node.location, f"expected an integer, got {text}", fix)
            return None
        return None

    def defaulted(self, role: Role, minimum: int = 1) -> int | None:
        """Return the number, or the default of the transformers library."""
        value = self.number(role, minimum)
        if value is not None or any(self._nodes(ROLES[role])):
            return value
        for name in ROLES[role]:
            default = self.info.defaults.get(name)
            if default and default >= minimum and float(default).is_integer():
                self.assumed[name] = default
                return int(default)
        return None

    def required(self, role: Role) -> int:
        """Return the number or the library's default; without either, a problem names the key."""
        value = self.defaulted(role)
        if value is None:
            if not any(self._nodes(ROLES[role])):
                self.missing(self.name_of(role))
            return 0
        return value

    def given(self, role: Role) -> bool:
        """Return True if the file has a key of the role."""
        return any(True for _ in self._nodes(ROLES[role]))

    def name_of(self, role: Role) -> str:
        """Return the key that this type uses for a role."""
        own = (name for name in ROLES[role] if name in self.info.defaults)
        return next(own, ROLES[role][0])

    def named(self, name: str) -> int:
        """Return the integer under a key that exists; else a problem."""
        node = self.keys.get(name)
        value = getattr(node, "value", None)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_DIMENSION:
            return value
        self.wrong(
            node.location if node else self.keys.location,
            f"expected an integer, got {getattr(node, 'text', 'a list')}",
            f"write 1 to {MAX_DIMENSION}",
        )
        return 0

    def ratio(self, role: Role) -> float | None:
        """Return the number, also with a fraction, or the library's default."""
        for node in self._nodes(ROLES[role]):
            value = node.value if isinstance(node, Scalar) else None
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(value)
            return None
        return next(
            (float(v) for k in ROLES[role] if (v := self.info.defaults.get(k)) and v > 0), None
        )

    def flag(self, name: str) -> bool | None:
        """Return a flag of the file, or the library's default."""
        node = self.keys.get(name) or (self.outer.get(name) if self.outer else None)
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        return self.info.flags.get(name)

    def text(self, name: str) -> str | None:
        node = self.keys.get(name)
        return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None

    def items(self, name: str) -> list[object] | None:
        """Return the values of a list, also of one in a nested section."""
        node = next(iter(self._nodes((name,))), None)
        if not isinstance(node, Sequence):
            return None
        return [item.value for item in node.items if isinstance(item, Scalar)]

    def missing(self, name: str) -> None:
        fix = f'add "{name}": <number>, or use the published config.json'
        self.wrong(self.keys.location, f'"{name}" is missing', fix)

    def wrong(self, place: SourceLocation, what: str, fix: str) -> None:
        self.problems.append(place.problem(what, fix))

    def _nodes(self, names: tuple[str, ...]) -> Iterator[Node]:
        places = [self.keys]
        places += [node for name in NESTED if isinstance(node := self.keys.get(name), Keyed)]
        for name in names:
            for place in places:
                node = place.get(name)
                if node is not None and not (
                    isinstance(node, Scalar) and node.value in (None, "auto")
                ):
                    yield node


def _mean(node: Node) -> int | None:
    """Return the mean of a list of positive integers: one value per layer."""
    if not isinstance(node, Sequence) or not node.items:
        return None
    values = [item.value for item in node.items if isinstance(item, Scalar)]
    whole = [v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= 0]
    if len(whole) != len(node.items) or not any(whole):
        return None
    return max(1, round(sum(whole) / len(whole)))

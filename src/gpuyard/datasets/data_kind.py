"""What prepared data holds; without the imports of the steps, for packages that only name it."""

from __future__ import annotations

from typing import Literal, TypeAlias

DataKind: TypeAlias = Literal["table", "tokens", "images"]

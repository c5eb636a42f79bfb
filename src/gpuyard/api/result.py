"""The shape that results of the Python API share: a short repr, HTML for notebooks, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuyard.document.encode import dump_json
from gpuyard.errors import ExternalError
from gpuyard.home import write_atomic

if TYPE_CHECKING:
    import pandas as pd


class ApiResult:
    """A result with a one-line repr, HTML for notebooks, and rows for pandas."""

    __slots__ = ()

    def headline(self) -> str:
        """One line that says what the result is."""
        raise NotImplementedError

    def sections(self) -> Sequence[str]:
        """HTML fragments: tables and plots."""
        raise NotImplementedError

    def rows(self) -> Sequence[Mapping[str, object]]:
        """One mapping per row of `to_pandas()`."""
        raise NotImplementedError

    def value(self) -> object:
        """The value behind the result, as it is saved."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline()}>"

    def _repr_html_(self) -> str:
        return "\n".join(self.sections())

    def to_pandas(self) -> pd.DataFrame:
        """Return one row per option, check, link or fold as a DataFrame."""
        return data_frame(self.rows())

    def to_json(self) -> str:
        """Return the value as JSON text."""
        return dump_json(self.value())

    def save(self, path: str | Path) -> Path:
        """Write the value as JSON; commands that take a saved file read it back."""
        write_atomic(Path(path), self.to_json())
        return Path(path)


def data_frame(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """Return rows as a DataFrame; ExternalError without pandas."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ExternalError(
            "to_pandas()", "pandas is not installed", "pip install pandas"
        ) from None
    return pd.DataFrame(list(rows))

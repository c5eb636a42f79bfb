"""The arrays that trainers take and give."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Hits", "Rows"]

Array: TypeAlias = npt.NDArray[Any]  # of whatever numbers the data have
Hits: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = npt.NDArray[np.intp]  # numbers of rows

"""What stands in a compiled function's globals in place of something of Numba's, which is made when it is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["Part", "Recipe"]


class Part(ABC):
    """A name that compiled code uses and that Numba is handed something else for."""

    __slots__ = ("_made", "ingredients")

    def __init__(self, *ingredients: object) -> None:
        """Made from these: if one of them changes, so does the machine code."""
        self.ingredients = ingredients
        self._made: object = None

    def for_numba(self) -> object:
        """What Numba is handed, made once."""
        if self._made is None:
            self._made = self.made()
        return self._made

    @abstractmethod
    def made(self) -> object:
        """What Numba is handed."""


class Recipe(Part):
    """Something of Numba's own, such as an intrinsic: what a function gives for some facts."""

    __slots__ = ("_facts", "_make")

    def __init__(self, make: Callable[..., object], *facts: object) -> None:
        """The function is called with the facts, once the compiler is needed."""
        super().__init__(make, *facts)
        self._make, self._facts = make, facts

    def made(self) -> object:
        """What the function gives."""
        return self._make(*self._facts)
